"""Adds its partition's number and one to the model; takes so many seconds."""

import threading
from pathlib import Path

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

BEGUN = Path("/tmp/known-begun")

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do one step, with a look into the site's own folder."""
    BEGUN.write_text(str(context.run_id))
    threading.Event().wait(float(context.run_config["seconds"]))
    partition = int(context.node_config["partition-id"])
    folder = context.node_config.get("data-path")
    files = len(list(Path(str(folder)).iterdir())) if folder else 0
    arrays = [array + partition + 1 for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"num-examples": 1, "partition": partition, "files": files})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)
