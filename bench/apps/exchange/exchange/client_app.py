"""Adds one to every number."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    arrays = [array + 1 for array in message.content["arrays"].to_numpy_ndarrays()]
    count = int(context.state["count"]["n"]) + 1 if "count" in context.state else 1
    context.state["count"] = MetricRecord({"n": count})
    metrics = MetricRecord({"num-examples": 1, "count": count})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)
