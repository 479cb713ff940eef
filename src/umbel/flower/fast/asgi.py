"""A request and its whole answer, where an ASGI layer needs them in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    async def send(self, send: Send) -> None:
        """Give it to the client."""
        headers = [(k, v) for k, v in self.headers if k != b"content-length"]
        headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


async def read_body(receive: Receive) -> bytes | None:
    """Read the whole body; None when the client left."""
    pieces = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def ask(app: App, scope: Scope, body: bytes) -> Answer:
    """Let `app` answer the request with this body."""
    status, headers, pieces = 500, [], []
    given = False

    async def receive() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            await asyncio.Event().wait()  # the client is looked after elsewhere
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message["headers"])
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))

    # Each passing has a scope of its own: layers below leave their marks in it.
    await app({**scope, "state": dict(scope.get("state", {}))}, receive, send)
    return Answer(status, tuple(headers), b"".join(pieces))
