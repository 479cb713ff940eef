from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from umbel.server import run_pages
from umbel.server.run_pages import _beating


async def test_a_silent_stream_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "BEAT_S", 0.0)
    on = asyncio.Event()

    async def lines() -> AsyncIterator[str]:
        yield "one\n"
        await on.wait()
        yield "two\n"

    heard: list[str] = []
    async for line in _beating(lines()):
        heard.append(line)
        if heard.count("\n") > 5:
            on.set()
    assert [line for line in heard if line.strip()] == ["one\n", "two\n"]
    assert heard.count("\n") > 5


async def test_who_stops_listening_ends_the_work() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def lines() -> AsyncIterator[str]:
        try:
            yield "one\n"
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    stream = _beating(lines())
    assert await anext(stream) == "one\n"
    waiting = asyncio.ensure_future(anext(stream))
    await begun.wait()
    waiting.cancel()
    await ended.wait()
    assert waiting.cancelled() or waiting.cancelling()


async def test_an_error_comes_through() -> None:
    async def lines() -> AsyncIterator[str]:
        yield "one\n"
        raise ValueError("a bug")

    stream = _beating(lines())
    assert await anext(stream) == "one\n"
    with pytest.raises(ValueError, match="a bug"):
        await anext(stream)
