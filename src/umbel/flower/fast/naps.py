"""A `time` of their own for Flower's polling loops: they wait for events, not for the clock."""

from __future__ import annotations

import threading
import time
from typing import Any

from umbel.flower.fast import guard

HELD_S = 1.0  # an empty answer that took longer was held by the server


class Naps:
    """Stands in for the `time` module in one of Flower's modules."""

    def __init__(self, change: threading.Event, long_s: float, way: guard.Way) -> None:
        self._change = change
        self._way = way
        self._long_s = long_s  # the nap after an empty answer
        self._last_s = time.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        """Nap until something changes. After a held answer there is no nap at all."""
        guard.took(self._way)
        if seconds < self._long_s:
            self._change.wait(seconds)
            self._change.clear()
            return
        held = time.monotonic() - self._last_s >= HELD_S
        if not held:
            time.sleep(seconds)  # the server does not hold: no spinning against it
        self._last_s = time.monotonic()
