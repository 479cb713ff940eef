"""Lets an idle web server sleep: uvicorn looks ten times a second whether it shall stop.

Ten sites that do nothing cost more than a percent of a core by that. Here the server is told instead.
"""

from __future__ import annotations

import asyncio
import contextlib
from importlib import import_module
from typing import Any

from umbel.flower.fast import guard

TICK_S = 10.0  # the date in answers is at most so old

_WAKE = "_umbel_wake"
_STOP = "should_exit"


class _Told:
    """`should_exit`, which wakes the server when it is set."""

    def __get__(self, server: Any, _: Any = None) -> bool:
        return bool(vars(server).get(_STOP))

    def __set__(self, server: Any, value: bool) -> None:
        vars(server)[_STOP] = value
        loop, wake = vars(server).get(_WAKE, (None, None))
        if value and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(wake.set)


async def _main_loop(server: Any) -> None:
    guard.took(guard.Way.TICKS)
    wake = asyncio.Event()
    vars(server)[_WAKE] = (asyncio.get_running_loop(), wake)
    while not await server.on_tick(0):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_S):
                await wake.wait()


def install() -> None:
    """Let the web servers of this process sleep."""
    server: Any = import_module("uvicorn.server").Server
    server.should_exit = _Told()
    server.main_loop = _main_loop
