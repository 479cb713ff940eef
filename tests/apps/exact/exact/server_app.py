"""FedAvg over the first nodes; which node gets which shard changes nothing of the data."""

import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Sharded(FedAvg):
    def __init__(self, nodes: int) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
        self.nodes = nodes

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        while len(found := sorted(grid.get_node_ids())) < self.nodes:
            time.sleep(0.1)
        return [
            Message(
                RecordDict({"arrays": arrays, "config": ConfigRecord({"shard": shard})}),
                dst_node_id=node,
                message_type="train",
            )
            for shard, node in enumerate(found[: self.nodes])
        ]


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    model = import_module(f"exact.with_{config['framework']}")
    result = Sharded(int(config["min-nodes"])).start(
        grid, ArrayRecord(model.initial()), num_rounds=int(config["num-server-rounds"])
    )
    if config["save-to"]:
        weights = {name: array.numpy() for name, array in result.arrays.items()}
        beside = Path(str(config["save-to"])).with_suffix(".half")
        with beside.open("wb") as file:
            np.savez(file, **weights)
        beside.replace(str(config["save-to"]))
