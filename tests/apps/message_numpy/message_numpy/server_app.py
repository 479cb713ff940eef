"""FedAvg. With n sites every round adds (1 + 4 + ... + n*n) / (1 + 2 + ... + n) = (2n + 1) / 3."""

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


def judge(_server_round: int, arrays: ArrayRecord) -> MetricRecord:
    weight = float(arrays.to_numpy_ndarrays()[0].mean())
    return MetricRecord({"loss": 1 / (1 + weight), "accuracy": weight / (1 + weight)})


@app.main()
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(
        min_train_nodes=1,
        min_evaluate_nodes=1,
        min_available_nodes=int(context.run_config["min-nodes"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(4), np.zeros((2, 3))]),
        num_rounds=int(context.run_config["num-server-rounds"]),
        evaluate_fn=judge,
    )
