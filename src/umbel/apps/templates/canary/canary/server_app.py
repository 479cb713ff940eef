"""Trains with one site, and prints what came of it as one line of JSON."""

import json

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

LARGE = 50_000  # numbers: an object that is not a small one

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for the given rounds."""
    random = np.random.default_rng(11)
    start = [random.random(3), random.random(LARGE)]
    strategy = FedAvg(
        fraction_evaluate=0.0, min_train_nodes=1, min_evaluate_nodes=0, min_available_nodes=1
    )
    rounds = int(context.run_config["num-server-rounds"])
    result = strategy.start(grid, ArrayRecord(start), num_rounds=rounds)
    steps = [a - b for a, b in zip(result.arrays.to_numpy_ndarrays(), start, strict=True)]
    counts = [int(m["count"]) for _, m in sorted(result.train_metrics_clientapp.items()) if m]
    told = {
        "least": min(float(step.min()) for step in steps),
        "most": max(float(step.max()) for step in steps),
        "counts": counts,
    }
    print(f"canary: {json.dumps(told)}", flush=True)  # noqa: T201
