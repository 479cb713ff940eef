"""Adds one to the weights, except at one site, where it raises."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


class DataUnreadableError(RuntimeError):
    """Nothing that Flower knows."""


def open_the_data(context: Context) -> None:
    partition_id = context.node_config["partition-id"]
    if partition_id == context.run_config["crash-partition"]:
        raise DataUnreadableError(f"partition {partition_id} cannot read its data")


@app.train()
def train(message: Message, context: Context) -> Message:
    open_the_data(context)
    arrays = [array + 1 for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"num-examples": 1})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    open_the_data(context)
    weight = float(message.content["arrays"].to_numpy_ndarrays()[0].mean())
    metrics = MetricRecord({"loss": 1 / (1 + weight), "num-examples": 1})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
