"""Trains on the shard that the server names, with the framework that the run names."""

from importlib import import_module

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    shard = int(message.content["config"]["shard"])
    model = import_module(f"exact.with_{context.run_config['framework']}")
    arrays = model.trained(message.content["arrays"].to_numpy_ndarrays(), shard)
    metrics = MetricRecord({"num-examples": shard + 1})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)
