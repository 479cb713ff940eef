"""A server in the older style: server_fn gives a strategy and a config."""

from flwr.common import Context, Metrics, NDArrays, Scalar
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg


def weighted_average(metrics: list[tuple[int, Metrics]]) -> Metrics:
    total = sum(examples for examples, _ in metrics)
    names = metrics[0][1].keys()
    return {name: sum(n * float(each[name]) for n, each in metrics) / total for name in names}


def judge(
    _server_round: int, parameters: NDArrays, _config: dict[str, Scalar]
) -> tuple[float, dict[str, Scalar]]:
    weight = float(parameters[0].mean())
    return 1 / (1 + weight), {"accuracy": weight / (1 + weight)}


def fit_config(server_round: int) -> dict[str, Scalar]:
    return {"round": server_round}


def server_fn(context: Context) -> ServerAppComponents:
    # No initial parameters: the server asks one client for them.
    strategy = FedAvg(
        min_fit_clients=1,
        min_evaluate_clients=1,
        min_available_clients=int(context.run_config["min-nodes"]),
        evaluate_fn=judge,
        on_fit_config_fn=fit_config,
        fit_metrics_aggregation_fn=weighted_average,
        evaluate_metrics_aggregation_fn=weighted_average,
    )
    rounds = int(context.run_config["num-server-rounds"])
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))


app = ServerApp(server_fn=server_fn)
