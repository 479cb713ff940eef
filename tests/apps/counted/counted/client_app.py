"""Adds one to every weight; counts in context.state, and in a file that survives everything."""

from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    server_round = int(message.content["config"]["server-round"])
    before = context.state.get("counter", MetricRecord({"calls": 0}))
    calls = int(before["calls"]) + 1
    context.state["counter"] = MetricRecord({"calls": calls})
    ballast = int(context.run_config["state-bytes"])
    if ballast:  # a state that takes longer to save than the reply takes to travel
        context.state["ballast"] = ConfigRecord({"bytes": bytes(ballast)})
    with Path(f"executions-{context.node_id}.txt").open("a") as file:
        file.write(f"{server_round}\n")
    arrays = [array + 1 for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"calls": calls, "num-examples": 1})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)
