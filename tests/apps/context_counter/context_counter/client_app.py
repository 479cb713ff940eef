"""Counts its calls where Flower keeps a node's state between messages."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def count(context: Context) -> MetricRecord:
    before = context.state.get("counter", MetricRecord({"calls": 0}))
    calls = int(before["calls"]) + 1
    context.state["counter"] = MetricRecord({"calls": calls})
    return MetricRecord({"calls": calls, "num-examples": 1})


@app.train()
def train(message: Message, context: Context) -> Message:
    arrays = ArrayRecord(message.content["arrays"].to_numpy_ndarrays())
    content = RecordDict({"arrays": arrays, "metrics": count(context)})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    return Message(RecordDict({"metrics": count(context)}), reply_to=message)
