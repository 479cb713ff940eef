"""A strategy of its own: a smaller step each round, half of each update, and its own saving."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class HalfWay(FedAvg):
    def __init__(self, save_to: Path, min_nodes: int) -> None:
        super().__init__(min_train_nodes=1, min_evaluate_nodes=1, min_available_nodes=min_nodes)
        self.file = save_to / "custom_strategy_model.npz"
        self.weights: list[np.ndarray] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self.weights = arrays.to_numpy_ndarrays()
        config["step"] = 1 / server_round
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super().aggregate_train(server_round, list(replies))
        if arrays is None:
            return None, metrics
        new = arrays.to_numpy_ndarrays()
        half = [(old + late) / 2 for old, late in zip(self.weights, new, strict=True)]
        np.savez(self.file, *half)
        return ArrayRecord(half), metrics


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = HalfWay(Path(str(config["save-to"])), int(config["min-nodes"]))
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(4)]),
        num_rounds=int(config["num-server-rounds"]),
    )
