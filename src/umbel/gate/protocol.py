"""The client's side: heads in, answers out, one request at a time on each connection."""

from __future__ import annotations

import asyncio
import time
from enum import Enum, auto
from typing import Protocol, cast

from umbel.flower.routes import Api
from umbel.gate.answers import CONTINUE, answer
from umbel.gate.audit import Entry
from umbel.gate.config import Limits
from umbel.gate.head import END, Head, Malformed, parse
from umbel.gate.policy import NO_ROUTE, STRANGER, Decision
from umbel.gate.relay import Exchange, Outcome
from umbel.gate.upstream import ARENA, write

LINGER_S = 2.0  # so long a client may take to part
_GONE = 499  # in the audit log: the client left before the answer
_SLOW = 408


class State(Enum):
    """What the connection is waiting for."""

    HEAD = auto()  # a request
    EXCHANGE = auto()  # the rest of a body, or an answer
    CLOSED = auto()  # nothing: what still comes in is not read


_HEAD, _EXCHANGE = State.HEAD, State.EXCHANGE  # looked up at every piece


class House(Protocol):
    """What all connections share."""

    limits: Limits

    @property
    def stopping(self) -> bool:
        """Whether the gate is about to end."""

    def enters(self, connection: Connection) -> None:
        """A handshake is done."""

    def leaves(self, connection: Connection) -> None:
        """A connection is closed."""

    def judge(self, api: Api, head: Head, peer: str) -> Decision:
        """Decide about a request."""

    def exchange(self, client: Connection, head: Head, decision: Decision) -> Exchange:
        """Make the exchange that carries an allowed request."""

    def note(self, entry: Entry) -> None:
        """Write down or count what happened."""


class Connection(asyncio.BufferedProtocol):
    """One client, until it leaves or is sent away."""

    def __init__(self, house: House, api: Api, peer: str) -> None:
        self._house = house
        self._api = api
        self._most = house.limits.body_bytes(api)
        self._transport: asyncio.Transport | None = None
        self._state = State.HEAD
        self._buffer = b""
        self._body_left = 0
        self._keeps = True
        self._exchange: Exchange | None = None
        self._decision: Decision | None = None
        self._parting = False  # closing, after an answer
        self._began = 0.0
        self.peer = peer
        self.deadline: float | None = None

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._expect(self._house.limits.header_seconds)
        self._house.enters(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._give_up(_GONE, "the client left")
        self._state = State.CLOSED
        self._transport = None
        self._house.leaves(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return ARENA

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(ARENA[:nbytes])
        if self._state is _EXCHANGE:
            self._pass_body(data)
        elif self._state is _HEAD:
            if not self._buffer:
                self._expect(self._house.limits.header_seconds)
            self._buffer += data
            self._look_for_head()
        # else nobody wants it

    def pause_writing(self) -> None:
        if self._exchange is not None:
            self._exchange.client_full()
        self._expect(self._house.limits.send_idle_seconds)

    def resume_writing(self) -> None:
        if self._exchange is not None:
            self._exchange.client_ready()
        self._rearm()

    # What an exchange calls

    @property
    def keeps(self) -> bool:
        """Whether the connection can stay open after an answer that is given now."""
        return self._keeps and self._body_left == 0 and not self._house.stopping

    def send(self, pieces: list[bytes]) -> None:
        """Write to the client."""
        if self._transport is not None:
            write(self._transport, pieces)

    def hold(self) -> None:
        """Read no more for now."""
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Go on reading, unless the next request waits already."""
        if self._transport is not None and not self._buffer:
            self._transport.resume_reading()
            self._rearm()

    def answered(self, outcome: Outcome) -> None:
        """The exchange is over: wait for the next request, or part."""
        self._note(outcome.status, outcome.why)
        self._exchange = self._decision = None
        if not outcome.whole:
            self.abort()
        elif outcome.keeps:
            self._next()
        else:
            self._parting = True
            self.close(within=self._house.limits.send_idle_seconds)

    # What the house calls

    @property
    def busy(self) -> bool:
        """Whether a request is being answered, or its answer is still on the way."""
        return self._exchange is not None or self._parting

    def expire(self) -> None:
        """The time is up: part without a word."""
        if self._state is State.HEAD and not self._buffer:
            self.close()
            return
        if self._state is State.HEAD:
            self._decision = Decision(STRANGER, NO_ROUTE, _SLOW, "slow head")
            self._note(_SLOW, "slow head")
        self._give_up(_SLOW, "too slow")
        self.abort()

    def close(self, *, within: float = LINGER_S) -> None:
        """Close when all is written and read: unread data would destroy the answer on its way."""
        self._state = State.CLOSED
        self._expect(within)
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._state = State.CLOSED
        self.deadline = None
        if self._transport is not None:
            self._transport.abort()

    # Heads

    def _look_for_head(self) -> None:
        limits = self._house.limits
        end = self._buffer.find(END)
        if end < 0 and len(self._buffer) <= limits.header_bytes:
            return
        self._began = time.perf_counter()
        self.deadline = None
        if end < 0 or end > limits.header_bytes:
            self._refuse_head("head too large")
            return
        raw, self._buffer = self._buffer[: end + len(END)], self._buffer[end + len(END) :]
        try:
            head = parse(raw, count=limits.header_count)
        except Malformed as error:
            self._refuse_head(f"malformed: {error}")
            return
        self._enter(head)

    def _enter(self, head: Head) -> None:
        decision = self._house.judge(self._api, head, self.peer)
        self._decision = decision
        self._keeps = head.keeps
        self._body_left = head.length
        if decision.allowed and head.length > self._most:
            self._refuse(Decision(decision.who, decision.what, 413, "body too large"))
        elif decision.allowed:
            self._begin(head, decision)
        else:
            self._refuse(decision)

    def _begin(self, head: Head, decision: Decision) -> None:
        self._state = _EXCHANGE
        self._exchange = self._house.exchange(self, head, decision)
        received, self._buffer = self._buffer, b""
        if head.continues and not received and head.length:
            self.send([CONTINUE])
        if received:
            self._pass_body(received)
        else:
            self._rearm()
        self._exchange.start()

    def _pass_body(self, data: bytes) -> None:
        """Pass what belongs to the body; what follows is the next request, and waits."""
        body, rest = (data, b"") if len(data) <= self._body_left else _cut(data, self._body_left)
        if body and self._exchange is not None:
            self._body_left -= len(body)
            self._rearm()
            self._exchange.body(body)
        if rest:
            self._buffer += rest
            self.hold()

    def _next(self) -> None:
        self._state = _HEAD
        self._rearm()
        if self._transport is not None:
            self._transport.resume_reading()
        if self._buffer:
            self._look_for_head()

    # Refusals

    def _refuse_head(self, why: str) -> None:
        self._refuse(Decision(STRANGER, NO_ROUTE, 401, why))

    def _refuse(self, decision: Decision) -> None:
        self._decision = decision
        self._note(decision.status, decision.why)
        self._decision = None
        # Only who is known reads a reason.
        known = decision.who != STRANGER and decision.status == 403  # noqa: PLR2004
        self.send([answer(decision.status, message=decision.why if known else "")])
        self._parting = True
        self.close()

    def _give_up(self, status: int, why: str) -> None:
        if self._exchange is not None:
            self._exchange.abort()
            self._note(status, why)
            self._exchange = self._decision = None

    def _rearm(self) -> None:
        """Set the time that the client has for what is awaited of it now."""
        limits = self._house.limits
        if self._state is _HEAD:
            self._expect(limits.header_seconds if self._buffer else limits.idle_seconds)
        elif self._state is _EXCHANGE:
            self.deadline = None
            if self._body_left:
                self._expect(limits.body_idle_seconds)

    def _expect(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds

    def _note(self, status: int, why: str) -> None:
        if self._decision is None:
            return
        exchange = self._exchange
        self._house.note(
            Entry(
                door=self._api,
                who=self._decision.who,
                peer=self.peer,
                what=self._decision.what,
                status=status,
                ms=(time.perf_counter() - self._began) * 1000,
                bytes_in=exchange.bytes_in if exchange else 0,
                bytes_out=exchange.bytes_out if exchange else 0,
                why=why,
            )
        )


def _cut(data: bytes, at: int) -> tuple[bytes, bytes]:
    return data[:at], data[at:]
