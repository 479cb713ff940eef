"""Metrics as nobody should name them, and as somebody will."""

import math

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

ODD = {
    "": 1.0,
    "a b\tc": 2.0,
    "line\nbreak": 3.0,
    "größe_μ": 4.0,
    "<script>alert(1)</script>": 5.0,
    "[red]markup[/red]": 6.0,
    "__class__": 7.0,
    "a" * 300: 8.0,
    "list": [1.0, 2.0, 3.0],
    "not-finite": math.inf,
    "huge": 10**15,
    "loss": math.nan,
    "num-examples": 1,
}


@app.train()
def train(message: Message, context: Context) -> Message:  # noqa: ARG001
    content = RecordDict({"arrays": message.content["arrays"], "odd metrics": MetricRecord(ODD)})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:  # noqa: ARG001
    return Message(RecordDict({"odd metrics": MetricRecord(ODD)}), reply_to=message)
