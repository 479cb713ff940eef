"""Trains with so many sites, and prints of each round which of them took part."""

import json

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


def told(replies: list[RecordDict], _: str) -> MetricRecord:
    """Print the partitions of the sites that answered, and what they found in their folder."""
    metrics = [reply["metrics"] for reply in replies]
    sites = sorted(int(metric["partition"]) for metric in metrics)
    print(f"round: {json.dumps({'sites': sites})}", flush=True)  # noqa: T201
    return MetricRecord({"files": sum(int(metric["files"]) for metric in metrics)})


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for the given rounds."""
    sites = int(context.run_config["min-nodes"])
    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_train_nodes=sites,
        min_evaluate_nodes=0,
        min_available_nodes=sites,
        train_metrics_aggr_fn=told,
    )
    rounds = int(context.run_config["num-server-rounds"])
    result = strategy.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=rounds)
    model = [round(float(value), 6) for value in result.arrays.to_numpy_ndarrays()[0]]
    files = [int(m["files"]) for _, m in sorted(result.train_metrics_clientapp.items())]
    print(f"known: {json.dumps({'model': model, 'files': files})}", flush=True)  # noqa: T201
