"""Stands behind both doors: answers at once, holds, or reads slowly, as the route says.

    python bench/gate_upstream.py SOCKET

A process of its own, as small and fast as Python has it, so that it hides no difference.
"""

from __future__ import annotations

import asyncio
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import httptools
import uvloop

HELD = b"/v1/fleet/pull-messages"  # answered after a release
STALLED = b"/v1/fleet/push-messages"  # read after a release
BYTES = b"flwr-answer-bytes"
SMALL = 64


@lru_cache
def answer(size: int) -> bytes:
    """Write an answer with a body of this size."""
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (size, bytes(size))


class Peer(asyncio.Protocol):
    """One connection of a proxy."""

    waiting: set[Peer] = set()  # noqa: RUF012

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._path = b""
        self._size = SMALL

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.waiting.discard(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._path, self._size = b"", SMALL

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == BYTES:
            self._size = int(value)

    def on_headers_complete(self) -> None:
        if self._path == STALLED:
            self.waiting.add(self)
            cast("asyncio.Transport", self._transport).pause_reading()

    def on_message_complete(self) -> None:
        if self._path == b"/waiting":
            self._size = len(self.waiting)
        elif self._path == b"/release":
            self._release()
        elif self._path == HELD:
            self.waiting.add(self)
            return
        self._say()

    def _release(self) -> None:
        peers = list(self.waiting)
        self.waiting.clear()
        for peer in peers:
            peer.go_on()

    def go_on(self) -> None:
        """Do what was waited with."""
        if self._path == HELD:
            self._say()
        else:
            cast("asyncio.Transport", self._transport).resume_reading()

    def _say(self) -> None:
        cast("asyncio.Transport", self._transport).write(answer(self._size))


async def serve(path: Path) -> None:
    """Listen for ever."""
    server = await asyncio.get_running_loop().create_unix_server(Peer, path, backlog=2048)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
