"""Adds one to every number, counts how often it was asked, and dies once."""

import os

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do one step, unless this is the round to die in."""
    if message.content["config"]["server-round"] == context.run_config["dies-in-round"]:
        os._exit(9)
    count = int(context.state["count"]["n"]) + 1 if "count" in context.state else 1
    context.state["count"] = MetricRecord({"n": count})
    arrays = [array + 1 for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"num-examples": 1, "count": count})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)
