"""Adds partition id + 1 to every weight; the site weighs partition id + 1, too."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    step = int(context.node_config["partition-id"]) + 1
    arrays = [array + step for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"step": step, "num-examples": step})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    weight = float(message.content["arrays"].to_numpy_ndarrays()[0].mean())
    examples = int(context.node_config["partition-id"]) + 1
    metrics = MetricRecord(
        {"loss": 1 / (1 + weight), "accuracy": weight / (1 + weight), "num-examples": examples}
    )
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
