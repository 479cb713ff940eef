"""FedAvg with a central evaluation that has no number first, and later nothing at all."""

import math

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


def judge(server_round: int, _arrays: ArrayRecord) -> MetricRecord | None:
    if server_round > 1:
        return None
    return MetricRecord({"loss": math.nan, "per class": [0.1, math.nan, -math.inf]})


@app.main()
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(
        min_train_nodes=1,
        min_evaluate_nodes=1,
        min_available_nodes=int(context.run_config["min-nodes"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({"a name/with.signs": Array(np.zeros(4))}),
        num_rounds=int(context.run_config["num-server-rounds"]),
        evaluate_fn=judge,
    )
