"""FedAvg without evaluation; prints for each round who answered, and what each had counted."""

import json
from collections.abc import Iterable

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Counting(FedAvg):
    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        told = {
            "round": server_round,
            "calls": [
                [str(m.metadata.src_node_id), int(m.content["metrics"]["calls"])]
                for m in replies
                if m.has_content()
            ],
            "errors": [m.error.reason for m in replies if m.has_error()],
        }
        print("COUNTED " + json.dumps(told), flush=True)
        return super().aggregate_train(server_round, replies)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    nodes = int(config["min-nodes"])
    strategy = Counting(
        fraction_evaluate=0.0,
        min_train_nodes=nodes,
        min_evaluate_nodes=0,
        min_available_nodes=nodes,
    )
    arrays = [np.full(3, float(number)) for number in range(int(config["arrays"]))]
    result = strategy.start(grid, ArrayRecord(arrays), num_rounds=int(config["num-server-rounds"]))
    steps = {
        round(float(v) - n, 6) for n, a in enumerate(result.arrays.to_numpy_ndarrays()) for v in a
    }
    print("STEPS " + json.dumps(sorted(steps)), flush=True)
