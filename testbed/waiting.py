"""Waiting for something to become true, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from testbed.errors import TooSlow

T = TypeVar("T")
TICK = 0.1


def eventually(
    what: str, look: Callable[[], T | None], seconds: float = 60, told: Callable[[], str] = str
) -> T:
    """Look until there is an answer; say what was awaited, and what was seen last, if none comes."""
    until = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > until:
            raise TooSlow(what, seconds, told())
        time.sleep(TICK)
    return found
