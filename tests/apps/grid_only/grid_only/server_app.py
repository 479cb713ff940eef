"""Asks every site for its sum and prints the mean of all. No strategy, no rounds."""

import time

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    while len(nodes := list(grid.get_node_ids())) < int(context.run_config["min-nodes"]):
        time.sleep(0.5)
    question = RecordDict({"question": ConfigRecord({"wanted": "mean"})})
    messages = [
        Message(question, dst_node_id=node, message_type=MessageType.QUERY) for node in nodes
    ]
    replies = list(grid.send_and_receive(messages, timeout=float(context.run_config["timeout"])))
    answers = [reply.content["answer"] for reply in replies if not reply.has_error()]
    mean = sum(answer["sum"] for answer in answers) / sum(answer["count"] for answer in answers)
    print(f"asked {len(messages)} nodes, {len(answers)} answered, mean={mean:.3f}")  # noqa: T201
