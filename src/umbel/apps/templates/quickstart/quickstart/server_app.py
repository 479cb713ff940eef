"""The half that runs once, at the hub: it sends the model out and averages what comes back."""

from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from . import data, model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds; Flower logs what each round brought."""
    config = context.run_config
    # One decision for all: a site that lacks this data set says so instead of using another one.
    dataset = data.available_dataset(str(config["dataset"]))
    images, labels = data.load_central_test(dataset)

    def evaluate(_server_round: int, arrays: ArrayRecord) -> MetricRecord:
        loss, accuracy = model.evaluate(arrays.to_numpy_ndarrays(), images, labels)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    strategy = FedAvg(
        fraction_train=float(config["fraction-train"]),
        # FedAvg waits for these; its defaults are 2, and one site would wait for ever.
        min_train_nodes=1,
        min_evaluate_nodes=1,
        min_available_nodes=int(config["min-nodes"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.new_model()),
        num_rounds=int(config["num-server-rounds"]),
        train_config=ConfigRecord({"dataset": dataset}),
        evaluate_config=ConfigRecord({"dataset": dataset}),
        evaluate_fn=evaluate,
    )
