"""Serves a batch: each part is checked and handled as if it had come alone."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from umbel.flower.fast import parts
from umbel.flower.fast.asgi import Receive, Scope, Send, read_body
from umbel.flower.fast.bells import Bells
from umbel.flower.fast.hold import HOLD_S, NOT_YET, object_bell
from umbel.flower.fast.shortcut import Shortcut

ENOUGH_BYTES = 1 << 20  # then the answer goes out: waiting for all would end the pipelining
OK = 200

_Part = tuple[str, bytes | memoryview]  # path, request
_Done = list[bytes | None]  # None: left for later


class Batch:
    """The layer around the short way."""

    def __init__(self, shortcut: Shortcut, bells: Bells, hold_s: float = HOLD_S) -> None:
        self._shortcut = shortcut
        self._bells = bells
        self._hold_s = hold_s
        self._pull: Any = import_module("flwr.proto.message_pb2").PullObjectRequest
        self._malformed: Any = import_module("google.protobuf.message").DecodeError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a batch; everything else goes on."""
        if scope["type"] != "http" or scope["path"] not in parts.PATHS:
            await self._shortcut(scope, receive, send)
            return
        body = await read_body(receive)
        if body is None:
            return
        try:
            wanted = [(parts.route_path(scope["path"], n), b) for n, b in parts.unpack(body)]
        except parts.Malformed:
            await Response(status_code=400)(scope, receive, send)
            return
        response = await self._answer(scope, wanted)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, wanted: list[_Part]) -> Response:
        size = sum(len(body) for _, body in wanted)
        ends_at = asyncio.get_running_loop().time() + self._hold_s
        bells = [self._bell(bytes(body)) for path, body in wanted if path.endswith("pull-object")]

        async def call(_: Request) -> Response:
            with self._bells.listen(bells) as ear:
                while True:
                    serve = partial(self._serve_all, scope, wanted)
                    work = partial(self._shortcut.together, serve)
                    done = await self._shortcut.soon(work, size)
                    left_s = ends_at - asyncio.get_running_loop().time()
                    late = [_is_late(*each) for each in zip(wanted, done, strict=True)]
                    if not all(late) or left_s <= 0 or not bells:
                        return _response(done, late)
                    await ear.wait(left_s)

        return await self._shortcut.translated(Request(scope), call)

    def _bell(self, body: bytes) -> str:
        try:
            return object_bell(self._pull.FromString(body).object_id)
        except self._malformed:  # said when it is served
            return object_bell("")

    def _serve_all(self, scope: Scope, wanted: list[_Part]) -> _Done:
        done: _Done = []
        size = 0
        for path, body in wanted:
            if size >= ENOUGH_BYTES and path.endswith("pull-object"):
                done.append(None)
                continue
            answer = self._shortcut.serve(scope, path, body)
            size += len(answer)
            done.append(answer)
        return done


def _is_late(part: _Part, answer: bytes | None) -> bool:
    """Whether a pull was left, or its object is not there yet; "stored" is written the same."""
    return part[0].endswith("pull-object") and answer in (None, NOT_YET)


def _response(done: _Done, late: list[bool]) -> Response:
    # An object that is not there yet is asked for again with those that were left.
    all_late = all(late)
    rows = [
        (parts.LATER, b"") if is_late and not all_late else (OK, answer or b"")
        for is_late, answer in zip(late, done, strict=True)
    ]
    return Response(parts.pack(rows), media_type=parts.MEDIA)
