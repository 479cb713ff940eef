"""Starts a child process and waits for it. Neither ends by itself (the child after an hour)."""

import subprocess
import sys

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()

CHILD = "import threading; threading.Event().wait(3600)"


@app.train()
def train(message: Message, context: Context) -> Message:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, "hang-child", str(context.run_id)],
        start_new_session=bool(context.run_config["own-session"]),
    )
    child.wait()
    return Message(message.content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    return train(message, context)
