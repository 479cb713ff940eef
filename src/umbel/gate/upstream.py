"""Connections to a Unix socket behind the gate: kept open, used by one request at a time."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import httptools

from umbel.sockets import reachable

HIGH_WATER = 512 * 1024
KEPT = 64  # idle connections

# Where everybody reads into: filled and emptied in one go, so one serves all. Pieces of this size
# are the fastest: larger ones make malloc give memory back to the system and ask for it again.
ARENA = memoryview(bytearray(128 * 1024))

_LARGE = 16 * 1024
_INTERIM = 200  # a status below is followed by the real one
_BODILESS = (204, 304)


class AnswerHead(NamedTuple):
    """An answer without its body. `length` is None where the body comes in chunks."""

    status: int
    fields: list[tuple[bytes, bytes]]
    length: int | None


class Receiver(Protocol):
    """Who asked: gets the answer piece by piece. The seam where an answer can be held."""

    def answer_begins(self, head: AnswerHead) -> None:
        """The head is there."""

    def answer_piece(self, data: bytes) -> None:
        """A part of the body is there."""

    def answer_pauses(self) -> None:
        """All that arrived has been handed over; more may come much later."""

    def answer_ends(self) -> None:
        """The answer is complete; the link is the receiver's to give back or to close."""

    def answer_breaks(self) -> None:
        """There will be no more of it."""

    def upstream_full(self) -> None:
        """Send no more for now."""

    def upstream_ready(self) -> None:
        """Go on sending."""


def write(transport: asyncio.Transport, pieces: list[bytes]) -> None:
    """Write small pieces together, and large ones as they are."""
    if len(pieces) > 1 and sum(map(len, pieces)) <= _LARGE:
        transport.write(b"".join(pieces))
    else:
        for piece in pieces:
            transport.write(piece)


class Link(asyncio.BufferedProtocol):
    """One connection to the SuperLink."""

    def __init__(self, news: Callable[[], object]) -> None:
        self._news = news  # whether something came in that the event loop did not tell yet
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._complete = False
        self._until_close = False
        self._excess = False
        self.reusable = False
        self.idle_since = 0.0

    # What a receiver does with it

    def ask(self, receiver: Receiver, pieces: list[bytes]) -> None:
        """Send a request's head and what there is of its body; `receiver` gets the answer."""
        self._receiver = receiver
        self._complete = self._until_close = self.reusable = False
        self.send(pieces)

    def send(self, pieces: list[bytes]) -> None:
        """Send a part of the request."""
        if self._transport is not None:
            write(self._transport, pieces)

    def hold(self) -> None:
        """Read no more of the answer for now."""
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Go on reading the answer."""
        if self._transport is not None:
            self._transport.resume_reading()

    def drop(self) -> None:
        """Close at once; the receiver hears nothing more."""
        self._receiver = None
        if self._transport is not None:
            self._transport.abort()

    @property
    def usable(self) -> bool:
        """Whether the other side still listens. Asked before a byte is sent, never after."""
        if self._transport is None or self._transport.is_closing():
            return False
        return not self._news()  # else closed, or speaking without being asked

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return ARENA

    def buffer_updated(self, nbytes: int) -> None:
        if self._receiver is None:
            self.drop()
            return
        try:
            self._parser.feed_data(ARENA[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._break()
            return
        # The receiver may have let go of us in between.
        if (receiver := self._receiver) is not None:
            if self._complete:
                self._finish(receiver)
            else:
                receiver.answer_pauses()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.reusable = False
        receiver = self._receiver
        if receiver is not None and self._until_close and exc is None:
            self._finish(receiver)
        else:
            self._break()

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.upstream_full()

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.upstream_ready()

    # What the parser calls

    def on_message_begin(self) -> None:
        self._excess = self._complete
        self._fields = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._receiver is None or status < _INTERIM or self._complete:
            return
        fields = dict(self._fields)
        length = 0 if status in _BODILESS else None
        if length is None and b"transfer-encoding" not in fields:
            announced = fields.get(b"content-length")
            self._until_close = announced is None
            length = None if announced is None else int(announced)
        self._receiver.answer_begins(AnswerHead(status, self._fields, length))

    def on_body(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.answer_piece(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= _INTERIM:
            self._complete = True
            self.reusable = self._parser.should_keep_alive()

    def _finish(self, receiver: Receiver) -> None:
        self._receiver = None
        self.reusable = self.reusable and not self._excess
        receiver.answer_ends()

    def _break(self) -> None:
        receiver, self._receiver = self._receiver, None
        if self._transport is not None:
            self._transport.abort()
        if receiver is not None:
            receiver.answer_breaks()


class Pool:
    """The links that are open and idle."""

    def __init__(self, path: Path, *, idle_seconds: float, name: str = "SuperLink") -> None:
        self.name = name  # of who listens there
        self._path = path
        self._idle_seconds = idle_seconds
        self._idle: list[Link] = []

    def take(self) -> Link | None:
        """Give an idle link that still works, if there is one."""
        while self._idle:
            link = self._idle.pop()
            if link.usable:
                return link
            link.drop()
        return None

    async def connect(self) -> Link:
        """Open a new link; OSError if nobody listens."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            with reachable(self._path) as name:
                sock.connect(name)
        except OSError:
            sock.close()
            raise
        news = select.poll()
        news.register(sock, select.POLLIN)
        link = Link(partial(news.poll, 0))
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=sock)
        except asyncio.CancelledError:
            link.drop()
            raise
        return link

    def give(self, link: Link, now: float) -> None:
        """Take a link back that is ready for the next request."""
        if len(self._idle) >= KEPT:
            link.drop()
        else:
            link.idle_since = now
            self._idle.append(link)

    def expire(self, now: float) -> None:
        """Close what was idle for too long."""
        old = [link for link in self._idle if now - link.idle_since > self._idle_seconds]
        for link in old:
            self._idle.remove(link)
            link.drop()

    def close(self) -> None:
        """Close every idle link."""
        while self._idle:
            self._idle.pop().drop()
