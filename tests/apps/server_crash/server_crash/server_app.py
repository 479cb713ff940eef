"""FedAvg whose central evaluation raises after round 1."""

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class ModelExplodedError(RuntimeError):
    """Nothing that Flower knows."""


def look_at_the_pieces(server_round: int) -> None:
    raise ModelExplodedError(f"round {server_round} left nothing to train")


def judge(server_round: int, _arrays: ArrayRecord) -> MetricRecord:
    if server_round == 1:
        look_at_the_pieces(server_round)
    return MetricRecord({"loss": 1.0, "accuracy": 0.5})


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
        evaluate_fn=judge,
    )
