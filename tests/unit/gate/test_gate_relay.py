from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from umbel.gate.head import Head
from umbel.gate.relay import Exchange, Outcome
from umbel.gate.upstream import Link, Pool

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Transport:
    """A transport that only writes down what is done with it."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0


class Client:
    """A client that takes everything, and is full at once if told so."""

    def __init__(self) -> None:
        self.keeps = True
        self.got = b""
        self.outcomes: list[Outcome] = []
        self.held = False
        self.fills: Exchange | None = None

    def send(self, pieces: list[bytes]) -> None:
        self.got += b"".join(pieces)
        if self.fills is not None:
            self.fills.client_full()

    def hold(self) -> None:
        self.held = True

    def go_on(self) -> None:
        self.held = False

    def answered(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


class Bench:
    """A pool with one idle link, and a client."""

    def __init__(self) -> None:
        self.transport = Transport()
        self.news = False
        self.link = Link(lambda: self.news)
        self.link.connection_made(cast("asyncio.Transport", self.transport))
        self.pool = Pool(Path("/nowhere"), idle_seconds=10)
        self.pool.give(self.link, now=0.0)
        self.client = Client()

    def ask(self, length: int = 0) -> Exchange:
        exchange = Exchange(self.client, Head("POST", "/v1/fleet/get-run", length), self.pool)
        exchange.start()
        return exchange

    def receive(self, data: bytes) -> None:
        """Let this come from the SuperLink."""
        self.link.get_buffer(-1)[: len(data)] = data
        self.link.buffer_updated(len(data))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_answer_goes_back_and_the_link_is_kept(bench: Bench) -> None:
    bench.ask()
    assert bench.pool.take() is None
    bench.receive(ANSWER)
    assert bench.client.got == ANSWER
    assert bench.client.outcomes == [Outcome(200, keeps=True)]
    assert bench.pool.take() is bench.link


def test_a_client_that_is_full_at_the_end_does_not_stop_the_link(bench: Bench) -> None:
    bench.client.fills = bench.ask()
    bench.receive(ANSWER)
    assert bench.pool.take() is bench.link
    assert bench.transport.reading


def test_a_client_that_is_full_stops_the_link_until_it_is_ready(bench: Bench) -> None:
    exchange = bench.ask()
    bench.client.fills = exchange
    bench.receive(ANSWER[:-1])
    assert not bench.transport.reading
    exchange.client_ready()
    assert bench.transport.reading


def test_a_link_that_is_full_stops_the_client(bench: Bench) -> None:
    bench.ask(length=10)
    bench.link.pause_writing()
    assert bench.client.held
    bench.link.resume_writing()
    assert not bench.client.held


def test_a_link_is_not_kept_when_the_body_is_not_all_sent(bench: Bench) -> None:
    bench.ask(length=10).body(b"half.")
    bench.receive(ANSWER)
    assert bench.transport.closed
    assert bench.pool.take() is None


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER.replace(b"\r\n", b"\r\nconnection: close\r\n", 1),
        ANSWER + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_a_link_is_not_kept_when_it_says_so_or_says_too_much(answer: bytes, bench: Bench) -> None:
    bench.ask()
    bench.receive(answer)
    assert bench.transport.closed
    assert bench.client.got.endswith(b"\r\n\r\nok")
    assert len(bench.client.outcomes) == 1


def test_a_link_that_speaks_without_being_asked_is_dropped(bench: Bench) -> None:
    bench.receive(ANSWER)
    assert bench.transport.closed
    assert bench.pool.take() is None


def test_a_link_that_was_closed_is_not_taken(bench: Bench) -> None:
    bench.news = True
    assert bench.pool.take() is None
    assert bench.transport.written == b""


def test_links_are_dropped_when_idle_for_too_long(bench: Bench) -> None:
    bench.pool.expire(now=9.0)
    assert not bench.transport.closed
    bench.pool.expire(now=11.0)
    assert bench.transport.closed


def test_an_interim_answer_is_not_the_answer(bench: Bench) -> None:
    bench.ask()
    bench.receive(b"HTTP/1.1 102 Processing\r\n\r\n")
    assert bench.client.outcomes == []
    bench.receive(ANSWER)
    assert bench.client.got == ANSWER


def test_an_answer_in_pieces_is_the_same_answer(bench: Bench) -> None:
    bench.ask()
    for byte in ANSWER:
        bench.receive(bytes([byte]))
    assert bench.client.got == ANSWER


def test_an_answer_without_a_body_has_none(bench: Bench) -> None:
    bench.ask()
    bench.receive(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert bench.client.got.endswith(b"content-length: 0\r\n\r\n")
    assert bench.client.outcomes[0].status == 204


def test_a_client_that_left_hears_nothing_and_the_link_is_dropped(bench: Bench) -> None:
    bench.ask().abort()
    assert bench.transport.closed
    bench.link.connection_lost(None)
    assert (bench.client.got, bench.client.outcomes) == (b"", [])
