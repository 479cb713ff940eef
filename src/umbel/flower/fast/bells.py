"""Named events: rung from any thread, waited for in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

_LATER: ContextVar[list[str] | None] = ContextVar("later", default=None)


class Ear:
    """Hears the bells it listens to, from the moment that it listens."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self.heard: set[str] = set()

    def hear(self, name: str) -> None:
        """A bell was rung."""
        self.heard.add(name)
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a bell; False when the time is up. The next wait starts anew."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

    async def wait_for_all(self, names: set[str], seconds: float) -> None:
        """Wait until each of these has been heard, or the time is up."""
        try:
            async with asyncio.timeout(seconds):
                while not names <= self.heard:
                    self._rung.clear()
                    await self._rung.wait()
        except TimeoutError:
            return


class Bells:
    """Who listens to which name. Listening begins before asking, so that no ring is missed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ears: dict[str, set[Ear]] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def listen(self, names: Iterable[str]) -> Iterator[Ear]:
        """Hear these bells while the block lasts."""
        self._loop = asyncio.get_running_loop()
        ear, heard = Ear(), tuple(names)
        with self._lock:
            for name in heard:
                self._ears.setdefault(name, set()).add(ear)
        try:
            yield ear
        finally:
            with self._lock:
                for name in heard:
                    ears = self._ears.get(name, set())
                    ears.discard(ear)
                    if not ears:
                        self._ears.pop(name, None)

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """Ring what is rung in the block at its end."""
        kept: list[str] = []
        token = _LATER.set(kept)
        try:
            yield
        finally:
            _LATER.reset(token)
            for name in kept:
                self.ring(name)

    def ring(self, name: str) -> None:
        """Wake who listens to this name. Any thread may ring; nobody listening costs nothing."""
        kept = _LATER.get()
        if kept is not None:
            kept.append(name)
            return
        with self._lock:
            ears = tuple(self._ears.get(name, ()))
        if ears and self._loop is not None and not self._loop.is_closed():
            for ear in ears:
                self._loop.call_soon_threadsafe(ear.hear, name)
