"""Adds one to the weights, except once at one site, where the process is gone without a word."""

import os

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    here = context.node_config["partition-id"] == context.run_config["exit-partition"]
    now = message.content["config"]["server-round"] == context.run_config["exit-round"]
    if here and now:
        os._exit(9)
    arrays = [array + 1 for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"num-examples": 1})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:  # noqa: ARG001
    weight = float(message.content["arrays"].to_numpy_ndarrays()[0].mean())
    metrics = MetricRecord({"loss": 1 / (1 + weight), "num-examples": 1})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
