"""Cannot be imported."""

import a_package_that_nobody_has
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:  # noqa: ARG001
    return Message(a_package_that_nobody_has.answer(message), reply_to=message)
