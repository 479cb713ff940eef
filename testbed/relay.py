"""Carries each spoke's traffic to the hub, so that it can be cut, healed and delayed.

One process for all spokes. Its rules stand in a file; SIGHUP makes it read them again, and a second
file says which generation of them is in force. A cut is a silent one, as in a network: open
connections stall, new ones are taken and go nowhere, and after the healing everything flows on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CHUNK = 65536
IN_FLIGHT = 64  # chunks on a delayed link before the sender is held

Chunk = tuple[float, bytes]
"""When it is due, and what it is; nothing means the end."""


@dataclass(frozen=True)
class Link:
    """How one spoke reaches the hub."""

    port: int
    cut: bool = False
    delay_ms: float = 0.0


@dataclass(frozen=True)
class Rules:
    """All links, and a number that grows with each change."""

    target: int
    links: dict[str, Link] = field(default_factory=dict)
    generation: int = 0

    def changed(
        self, name: str, *, cut: bool | None = None, delay_ms: float | None = None
    ) -> Rules:
        """Give the rules with one link changed."""
        old = self.links[name]
        new = Link(
            old.port,
            old.cut if cut is None else cut,
            old.delay_ms if delay_ms is None else delay_ms,
        )
        return Rules(self.target, {**self.links, name: new}, self.generation + 1)


def read_rules(path: Path) -> Rules:
    said = json.loads(path.read_text())
    links = {name: Link(**link) for name, link in said["links"].items()}
    return Rules(said["target"], links, said["generation"])


def write_rules(path: Path, rules: Rules) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(asdict(rules)))
    beside.replace(path)


def seen_file(path: Path) -> Path:
    return path.with_suffix(".seen")


class Road:
    """One link at work: listens on its port, forwards to the hub while it is not cut."""

    def __init__(self, link: Link, target: int) -> None:
        self.target = target
        self.delay = 0.0
        self._open = asyncio.Event()
        self._travellers: set[asyncio.Task[Any]] = set()
        self.obey(link)

    def obey(self, link: Link) -> None:
        self.delay = link.delay_ms / 1000
        if link.cut:
            self._open.clear()
        else:
            self._open.set()

    async def serve(self, link: Link) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", link.port)

    async def close(self) -> None:
        """End every connection that is still open."""
        for traveller in self._travellers:
            traveller.cancel()
        await asyncio.gather(*self._travellers, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        traveller = asyncio.current_task()
        assert traveller is not None  # noqa: S101  # a server runs this as a task
        self._travellers.add(traveller)
        traveller.add_done_callback(self._travellers.discard)
        try:
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
            finally:
                far_writer.close()
        except (OSError, asyncio.CancelledError):
            pass  # one side is gone or the relay ends: so does the other, below
        finally:
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Move bytes one way; each chunk arrives its delay later, in order."""
        clock = asyncio.get_running_loop().time
        under_way: asyncio.Queue[Chunk] = asyncio.Queue(IN_FLIGHT)

        async def take() -> None:
            while True:
                data = await reader.read(CHUNK)
                await under_way.put((clock() + self.delay, data))
                if not data:
                    return

        taking = asyncio.ensure_future(take())
        try:
            while True:
                due, data = await _first(under_way, taking)
                await asyncio.sleep(max(0.0, due - clock()))
                await self._open.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            with contextlib.suppress(OSError):
                writer.write_eof()
        finally:
            taking.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await taking


async def _first(queue: asyncio.Queue[Chunk], taking: asyncio.Future[None]) -> Chunk:
    """Give the next chunk; if reading failed there will be none, and its error is raised."""
    getting = asyncio.ensure_future(queue.get())
    awaited: set[asyncio.Future[Any]] = {getting, taking}
    try:
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if not getting.done() and taking.done() and queue.empty():
            taking.result()
        return await getting
    finally:
        getting.cancel()


async def relay(path: Path) -> None:
    """Serve every link until SIGTERM."""
    rules = read_rules(path)
    roads = {name: Road(link, rules.target) for name, link in rules.links.items()}
    servers = [await roads[name].serve(link) for name, link in rules.links.items()]
    _confirm(path, rules)

    def reread() -> None:
        fresh = read_rules(path)
        for name, link in fresh.links.items():
            roads[name].obey(link)
        _confirm(path, fresh)

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, reread)
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    for server in servers:
        server.close()
    for road in roads.values():
        await road.close()


def _confirm(path: Path, rules: Rules) -> None:
    beside = path.with_suffix(".said")
    beside.write_text(f"{os.getpid()} {rules.generation}")
    beside.replace(seen_file(path))


if __name__ == "__main__":
    asyncio.run(relay(Path(sys.argv[1])))
