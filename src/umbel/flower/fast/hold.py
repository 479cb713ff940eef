"""Holds "nothing yet" answers until there is something, so that no client sleeps.

An ASGI layer around SuperLink's or SuperNode's own app. It asks the app, and where the answer says
"nothing yet" it waits for the bell that the state rings, then asks again, up to a limit that is
shorter than the client's read time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

from umbel.flower.fast import guard, pulse
from umbel.flower.fast.asgi import Answer, App, Receive, Scope, Send, ask, read_body
from umbel.flower.fast.bells import Bells
from umbel.flower.fast.guard import Way

HOLD_S = 25.0  # Flower's clients wait 30 s for an answer
LOOK_ANYWAY_S = 2.0  # SuperLink finds out that a node is gone only when it is asked
NOT_YET = b"\x08\x01"  # PullObjectResponse: found, not available
OK = 200

Asks = Callable[[], Awaitable[Answer]]
_Held = Callable[[Scope, bytes], Awaitable[Answer]]


def node_bell(node_id: int) -> str:
    """Rung when a message for this node is stored."""
    return f"node/{node_id}"


def reply_bell(message_id: str) -> str:
    """Rung when the reply to this message is stored."""
    return f"reply/{message_id}"


def object_bell(object_id: str) -> str:
    """Rung when this object is stored."""
    return f"object/{object_id}"


class Hold:
    """The layer. `prefixes` tell which of Flower's APIs the app serves."""

    def __init__(
        self, app: App, bells: Bells, hold_s: float = HOLD_S, way: Way = Way.HOLD_LINK
    ) -> None:
        self._app = app
        self._way = way
        self._pulse = guard.open_to(Way.PULSE)
        self._bells = bells
        self._hold_s = hold_s
        self._fleet: Any = import_module("flwr.proto.fleet_pb2")
        self._runtime: Any = import_module("flwr.proto.runtime_pb2")
        self._message: Any = import_module("flwr.proto.message_pb2")
        self._malformed: Any = import_module("google.protobuf.message").DecodeError
        self._held: dict[str, _Held] = {
            "/v1/fleet/pull-messages": self._node_pull,
            "/v1/fleet/pull-object": self._object_pull,
            "/v1/runtime/pull-object": self._object_pull,
            "/v1/runtime/pull-messages": self._reply_pull,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, perhaps later."""
        held = self._held.get(scope["path"]) if scope["type"] == "http" else None
        if held is None:
            await self._app(scope, receive, send)
            return
        guard.took(self._way)
        body = await read_body(receive)
        if body is None:
            return
        answering = asyncio.ensure_future(self._answer(held, scope, body))
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await answering.result().send(send)
        finally:
            answering.cancel()
            leaving.cancel()

    async def _answer(self, held: _Held, scope: Scope, body: bytes) -> Answer:
        try:
            return await held(scope, body)
        except self._malformed:  # the app says what is wrong with it
            return await ask(self._app, scope, body)

    async def _until(self, bells: Iterable[str], asks: Asks, nothing: bytes) -> Answer:
        """Ask until the answer is not `nothing`, or the time is up."""
        ends_at = asyncio.get_running_loop().time() + self._hold_s
        with self._bells.listen(bells) as ear:
            while True:
                answer = await asks()
                left_s = ends_at - asyncio.get_running_loop().time()
                if answer.status != OK or answer.body != nothing or left_s <= 0:
                    return answer
                await ear.wait(left_s)

    async def _node_pull(self, scope: Scope, body: bytes) -> Answer:
        request = self._fleet.PullMessagesRequest.FromString(body)
        bells = [node_bell(request.node.node_id)]
        asks = partial(ask, self._app, scope, body)
        answer = await self._until(bells, asks, b"")
        if answer.status == OK and self._pulse:
            headers = (*answer.headers, (pulse.HEADER.encode(), b"1"))
            return Answer(OK, headers, answer.body)
        return answer

    async def _object_pull(self, scope: Scope, body: bytes) -> Answer:
        request = self._message.PullObjectRequest.FromString(body)
        bells = [object_bell(request.object_id)]
        asks = partial(ask, self._app, scope, body)
        return await self._until(bells, asks, NOT_YET)

    async def _reply_pull(self, scope: Scope, body: bytes) -> Answer:
        """Hold until every id is answered; what was claimed meanwhile is given with the rest."""
        request = self._runtime.PullAppMessagesRequest.FromString(body)
        open_ids = set(request.message_ids)
        if not open_ids:  # nothing is asked for: holding would only add to the round
            return await ask(self._app, scope, body)
        merged: Any = self._runtime.PullAppMessagesResponse()
        ends_at = asyncio.get_running_loop().time() + self._hold_s
        with self._bells.listen(map(reply_bell, open_ids)) as ear:
            while True:
                part = self._runtime.PullAppMessagesRequest(message_ids=sorted(open_ids))
                answer = await ask(self._app, scope, part.SerializeToString())
                if answer.status != OK and merged.messages_list:
                    return _with_body(answer, merged.SerializeToString())
                if answer.status != OK:
                    return answer
                got = self._runtime.PullAppMessagesResponse.FromString(answer.body)
                merged.MergeFrom(got)
                open_ids -= {m.metadata.reply_to_message_id for m in got.messages_list}
                left_s = ends_at - asyncio.get_running_loop().time()
                if not open_ids or left_s <= 0:
                    return _with_body(answer, merged.SerializeToString())
                await ear.wait_for_all(set(map(reply_bell, open_ids)), min(left_s, LOOK_ANYWAY_S))


def _with_body(answer: Answer, body: bytes) -> Answer:
    headers = answer.headers
    if answer.status != OK:
        headers = ((b"content-type", b"application/protobuf"),)
    return Answer(OK, headers, body)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
