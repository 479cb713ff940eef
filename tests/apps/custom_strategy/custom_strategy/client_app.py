"""Adds the step that came to the weights."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:  # noqa: ARG001
    step = float(message.content["config"]["step"])
    arrays = [array + step for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"step": step, "num-examples": 1})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:  # noqa: ARG001
    weight = float(message.content["arrays"].to_numpy_ndarrays()[0].mean())
    metrics = MetricRecord({"loss": 1 / (1 + weight), "num-examples": 1})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
