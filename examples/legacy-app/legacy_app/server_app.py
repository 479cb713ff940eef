"""The half that runs at the hub."""

import numpy as np
from flwr.common import Context, Metrics, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg


def weighted_average(metrics: list[tuple[int, Metrics]]) -> Metrics:
    total = sum(examples for examples, _ in metrics)
    return {"r2": sum(examples * float(m["r2"]) for examples, m in metrics) / total}


def central_evaluate(server_round, parameters, config):  # noqa: ARG001
    slope, height = (float(value) for value in parameters)
    x = np.linspace(-2, 2, 101)
    loss = float(((slope * x + height - (3 * x + 2)) ** 2).mean())
    return loss, {"slope": slope, "height": height}


def server_fn(context: Context) -> ServerAppComponents:
    strategy = FedAvg(
        min_fit_clients=1,
        min_evaluate_clients=1,
        min_available_clients=int(context.run_config["min-nodes"]),
        initial_parameters=ndarrays_to_parameters([np.array(0.0), np.array(0.0)]),
        evaluate_fn=central_evaluate,
        evaluate_metrics_aggregation_fn=weighted_average,
    )
    rounds = int(context.run_config["num-server-rounds"])
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))


app = ServerApp(server_fn=server_fn)
