"""A client in the older style: a class with fit and evaluate, made by client_fn."""

import numpy as np
from flwr.client import Client, ClientApp, NumPyClient
from flwr.common import Context, NDArrays, Scalar


class AddingClient(NumPyClient):
    def __init__(self, partition_id: int) -> None:
        self.step = partition_id + 1

    def get_parameters(self, config: dict[str, Scalar]) -> NDArrays:  # noqa: ARG002
        return [np.zeros(4), np.zeros((2, 3))]

    def fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        grown = [array + self.step for array in parameters]
        return grown, self.step, {"step": self.step, "round": config["round"]}

    def evaluate(
        self,
        parameters: NDArrays,
        config: dict[str, Scalar],  # noqa: ARG002
    ) -> tuple[float, int, dict[str, Scalar]]:
        weight = float(parameters[0].mean())
        return 1 / (1 + weight), self.step, {"accuracy": weight / (1 + weight)}


def client_fn(context: Context) -> Client:
    return AddingClient(int(context.node_config["partition-id"])).to_client()


app = ClientApp(client_fn=client_fn)
