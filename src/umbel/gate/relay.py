"""One request on its way to the SuperLink, and its answer on the way back."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple, Protocol

from umbel.gate.answers import answer, status_line
from umbel.gate.head import Head
from umbel.gate.upstream import AnswerHead, Link, Pool

_OURS = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"server",
        b"date",
        b"www-authenticate",
        b"alt-svc",
    }
)


class Outcome(NamedTuple):
    """How an exchange ended. `keeps` says what the client was told about the connection."""

    status: int
    why: str = ""
    keeps: bool = False
    whole: bool = True  # the answer did not break off


class Client(Protocol):
    """The connection that a request came from."""

    @property
    def keeps(self) -> bool:
        """Whether the connection can stay open after an answer that is given now."""

    def send(self, pieces: list[bytes]) -> None:
        """Write to the client."""

    def hold(self) -> None:
        """Read no more of the request for now."""

    def go_on(self) -> None:
        """Go on reading the request."""

    def answered(self, outcome: Outcome) -> None:
        """The exchange is over."""


class Exchange:
    """Passes a body on and an answer back, in pieces, as fast as the slower side goes."""

    def __init__(self, client: Client, head: Head, pool: Pool) -> None:
        self._client = client
        self._head = head
        self._pool = pool
        self._link: Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[bytes] = []  # body that came before the link was there
        self._out: list[bytes] = []
        self._status = 0
        self._keeps = False
        self._chunked = False
        self._muted = False  # our own words stand for the body
        self.bytes_in = 0
        self.bytes_out = 0

    # What the client's connection calls

    def start(self) -> None:
        """Send the head, and what there is of the body, over an idle link or a new one."""
        link = self._pool.take()
        if link is not None:
            self._ask(link)
            return
        self._client.hold()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def body(self, data: bytes) -> None:
        """Send a piece of the body."""
        self.bytes_in += len(data)
        if self._link is not None:
            self._link.send([data])
        elif not self._status:
            self._waiting.append(data)

    def abort(self) -> None:
        """Forget it: the client is gone."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._link is not None:
            self._link.drop()
            self._link = None

    def client_full(self) -> None:
        """Read no more of the answer for now."""
        if self._link is not None:
            self._link.hold()

    def client_ready(self) -> None:
        """Go on reading the answer."""
        if self._link is not None:
            self._link.go_on()

    # What the link calls

    def answer_begins(self, head: AnswerHead) -> None:
        """Write the head anew. What SuperLink says to who it does not know, stays inside."""
        self._status = head.status
        self._keeps = self._client.keeps
        if head.status == 401:  # noqa: PLR2004
            self._muted = True
            self._out.append(answer(401, keeps=self._keeps))
            return
        lines = [status_line(head.status).encode("ascii")]
        lines += [b"%s: %s" % line for line in head.fields if line[0] not in _OURS]
        if head.length is None:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked")
        else:
            lines.append(b"content-length: %d" % head.length)
        if not self._keeps:
            lines.append(b"connection: close")
        lines.append(b"\r\n")
        self._out.append(b"\r\n".join(lines))

    def answer_piece(self, data: bytes) -> None:
        """Pass a piece of the answer's body."""
        if self._muted:
            return
        self.bytes_out += len(data)
        self._out += (b"%x\r\n" % len(data), data, b"\r\n") if self._chunked else (data,)

    def answer_pauses(self) -> None:
        """Write what has come together."""
        if self._out:
            pieces, self._out = self._out, []
            self._client.send(pieces)

    def answer_ends(self) -> None:
        """End the answer, and give the link back if it is clean."""
        link, self._link = self._link, None  # a client that is full no longer concerns the link
        if self._chunked:
            self._out.append(b"0\r\n\r\n")
        self.answer_pauses()
        if link is not None:
            if link.reusable and self.bytes_in == self._head.length:
                self._pool.give(link, time.monotonic())
            else:
                link.drop()
        self._client.answered(Outcome(self._status, keeps=self._keeps))

    def answer_breaks(self) -> None:
        """Say so if nothing was said yet; else break off as well."""
        self._link = None
        if self._status:
            self._client.answered(
                Outcome(self._status, f"the {self._pool.name} broke off", whole=False)
            )
        else:
            self._say(502, f"the {self._pool.name} broke off")

    def upstream_full(self) -> None:
        """Read no more of the body for now."""
        self._client.hold()

    def upstream_ready(self) -> None:
        """Go on reading the body."""
        self._client.go_on()

    def _ask(self, link: Link) -> None:
        self._link = link
        pieces, self._waiting = [self._head.for_upstream(), *self._waiting], []
        link.ask(self, pieces)

    async def _connect(self) -> None:
        try:
            link = await self._pool.connect()
        except OSError:
            self._connecting = None
            self._say(503, f"the {self._pool.name} is not there")
            return
        self._connecting = None
        self._client.go_on()
        self._ask(link)

    def _say(self, status: int, why: str) -> None:
        keeps = self._client.keeps
        self._client.send([answer(status, keeps=keeps)])
        self._client.answered(Outcome(status, why, keeps=keeps))
