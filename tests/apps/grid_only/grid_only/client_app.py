"""Answers with the sum and the number of its ten values: 10 x partition id + (0 to 9)."""

import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    values = 10 * int(context.node_config["partition-id"]) + np.arange(10)
    answer = MetricRecord({"sum": float(values.sum()), "count": len(values)})
    return Message(RecordDict({"answer": answer}), reply_to=message)
