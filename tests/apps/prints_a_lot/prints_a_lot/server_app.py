"""Prints its lines, half of them before the round and half after it."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    lines = int(context.run_config["lines"])
    for number in range(lines // 2):
        print(f"server line {number:05d}")  # noqa: T201
    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_train_nodes=1,
        min_available_nodes=int(context.run_config["min-nodes"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(4)]),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
    for number in range(lines // 2, lines):
        print(f"server line {number:05d}")  # noqa: T201
