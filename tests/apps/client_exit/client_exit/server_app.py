"""Plain FedAvg over four zeros."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(
        min_train_nodes=1,
        min_evaluate_nodes=1,
        min_available_nodes=int(context.run_config["min-nodes"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(4)]),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
