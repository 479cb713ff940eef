"""The half that runs at every site."""

import numpy as np
from flwr.client import Client, ClientApp, NumPyClient
from flwr.common import Context


class LineClient(NumPyClient):
    """Knows its own stretch of the line, with some noise."""

    def __init__(self, partition_id: int, num_partitions: int, local_steps: int, rate: float):
        rng = np.random.default_rng(partition_id)
        self.x = (partition_id + rng.random(100)) / num_partitions * 4 - 2
        self.y = 3 * self.x + 2 + rng.normal(0, 0.1, 100)
        self.local_steps = local_steps
        self.rate = rate

    def fit(self, parameters, config):  # noqa: ARG002
        slope, height = (float(value) for value in parameters)
        for _ in range(self.local_steps):
            error = slope * self.x + height - self.y
            slope -= self.rate * float((error * self.x).mean())
            height -= self.rate * float(error.mean())
        return [np.array(slope), np.array(height)], len(self.x), {}

    def evaluate(self, parameters, config):  # noqa: ARG002
        slope, height = (float(value) for value in parameters)
        error = slope * self.x + height - self.y
        explained = 1 - float((error**2).sum() / ((self.y - self.y.mean()) ** 2).sum())
        return float((error**2).mean()), len(self.x), {"r2": explained}


def client_fn(context: Context) -> Client:
    return LineClient(
        int(context.node_config["partition-id"]),
        int(context.node_config["num-partitions"]),
        int(context.run_config["local-steps"]),
        float(context.run_config["learning-rate"]),
    ).to_client()


app = ClientApp(client_fn=client_fn)
