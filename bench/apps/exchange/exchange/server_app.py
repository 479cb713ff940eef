"""Trains for some rounds without evaluation, and prints when each round ended."""

import json
import time

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Timed(FedAvg):
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        result = super().aggregate_train(server_round, replies)
        print(json.dumps({"round": server_round, "at": time.time()}), flush=True)
        return result


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    nodes = int(config["nodes"])
    count, size = int(config["arrays"]), int(config["array-bytes"])
    random = np.random.default_rng(7)  # equal arrays would be stored and sent only once
    arrays = ArrayRecord([random.random(max(1, size // 8)) for _ in range(count)])
    strategy = Timed(
        fraction_evaluate=0.0,
        min_train_nodes=nodes,
        min_evaluate_nodes=0,
        min_available_nodes=nodes,
    )
    print(json.dumps({"round": 0, "at": time.time()}), flush=True)
    strategy.start(grid, arrays, num_rounds=int(config["num-server-rounds"]))
