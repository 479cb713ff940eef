"""Keeps units running: starts them in the nursery, notices their end, starts them again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umbel.agent import backoff, processes
from umbel.agent.nursery_client import NurseryClient, NurseryFailed
from umbel.agent.processes import Process
from umbel.files import CannotWrite
from umbel.model.unit import Health, Kind, Present, Unit
from umbel.ports import Kept, Store

STOP_GRACE_S = 5.0
Order = Mapping[str, Any]


@dataclass(slots=True)
class _Entry:
    unit: Unit
    order: Order
    process: Process | None = None
    failures: int = 0
    message: str = ""
    task: asyncio.Task[None] | None = None
    began: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """All units of this machine's federations. `render` turns a unit into a nursery order."""

    def __init__(
        self,
        store: Store,
        nursery: NurseryClient,
        render: Callable[[Unit], Order],
        sign_off: Callable[[Unit], Awaitable[None]],
    ) -> None:
        self._store = store
        self._nursery = nursery
        self._render = render
        self._sign_off = sign_off
        self._entries: dict[tuple[str, str], _Entry] = {}

    async def start(self, unit: Unit) -> None:
        """Have the unit run, as described; returns when its process is there."""
        key = (unit.federation, unit.name)
        if key in self._entries:
            await self.stop(unit.federation, [unit.name])
            if unit.kind is Kind.SUPERNODE:
                await self._sign_off(unit)
        entry = self._entries[key] = _Entry(unit, self._render(unit))
        entry.task = asyncio.create_task(self._keep(entry), name="/".join(key))
        began = asyncio.create_task(entry.began.wait())
        await asyncio.wait({began, entry.task}, return_when=asyncio.FIRST_COMPLETED)
        began.cancel()
        if entry.task.done():
            entry.task.result()

    def adopt(self, federation: str) -> None:
        """Take over what a former daemon started; what has ended meanwhile is started again."""
        for name, kept in self._store.units(federation).items():
            if (federation, name) in self._entries:
                continue
            entry = _Entry(kept.unit, self._render(kept.unit))
            process = Process(kept.pid, kept.started)
            entry.process = process if process.alive() else None
            self._entries[federation, name] = entry
            entry.task = asyncio.create_task(self._keep(entry), name=f"{federation}/{name}")

    async def stop(
        self, federation: str, names: Collection[str], grace_s: float = STOP_GRACE_S
    ) -> None:
        """End the units with all their descendants."""
        entries = [e for n in names if (e := self._entries.pop((federation, n), None))]
        for entry in entries:
            if entry.task is not None:
                entry.task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await entry.task
        await end_processes({e.process for e in entries if e.process is not None}, grace_s)
        for name in names:
            # A full disk must not keep anything from ending: what ended is seen to be gone anyway.
            with contextlib.suppress(CannotWrite):
                self._store.forget_unit(federation, name)

    def send(self, federation: str, name: str, number: signal.Signals) -> None:
        """Send a signal to the unit's process, if there is one."""
        entry = self._entries.get((federation, name))
        if entry is not None and entry.process is not None:
            entry.process.send(number)

    def observe(self, federation: str) -> dict[str, Present]:
        """Tell of each unit whether its process runs."""
        return {
            name: _sighting(entry)
            for (owner, name), entry in self._entries.items()
            if owner == federation
        }

    async def close(self) -> None:
        """Stop watching; what runs goes on."""
        for entry in self._entries.values():
            if entry.task is not None:
                entry.task.cancel()

    async def _keep(self, entry: _Entry) -> None:
        while True:
            if entry.process is None:
                await self._spawn(entry)
            entry.began.set()
            if entry.process is not None:
                began_s = time.monotonic()
                await until_ended(entry.process)
                lifetime_s = time.monotonic() - began_s
                entry.failures = backoff.failures_after(entry.failures, lifetime_s)
                entry.message = self._why(entry)
                entry.process = None
                if entry.unit.kind is Kind.SUPERNODE:
                    await self._sign_off(entry.unit)
            await asyncio.sleep(backoff.delay_s(entry.failures, entry.unit.kind))

    async def _spawn(self, entry: _Entry) -> None:
        try:
            await self._nursery.ensure()
            entry.process = await self._nursery.spawn(entry.order)
        except NurseryFailed as error:
            entry.failures += 1
            entry.message = str(error)
            return
        self._store.save_unit(Kept(entry.unit, entry.process.pid, entry.process.started))

    def _why(self, entry: _Entry) -> str:
        """Say how the process ended, with the last line it wrote."""
        code = "?"
        assert entry.process is not None  # noqa: S101  # the caller saw it end
        with contextlib.suppress(OSError, ValueError):
            pid, code_text = Path(entry.order["exit"]).read_text().split()
            code = code_text if int(pid) == entry.process.pid else "?"
        return f"ended with {code}, start {entry.failures + 1} follows: {last_words(entry.order)}"


def last_words(order: Order) -> str:
    """Give the last lines of a unit's log that say something."""
    try:
        with Path(order["log"]).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return "no log"
    telling = [s for line in lines if (s := line.strip()) and "visit: http" not in s]
    return " / ".join(telling[-3:])[-400:]


def _sighting(entry: _Entry) -> Present:
    unit = entry.unit
    if entry.process is not None and entry.process.alive():
        health = Health.READY if _says_ready(entry) else Health.STARTING
    else:
        health = Health.FAILING if entry.failures else Health.STARTING
    return Present(
        site=unit.site,
        kind=unit.kind,
        fingerprint=unit.fingerprint,
        health=health,
        message="" if health is Health.READY else entry.message,
        restarts=entry.failures,
        settings=unit.settings,
    )


def _says_ready(entry: _Entry) -> bool:
    """A unit with a note is ready when its own process has written it."""
    note = entry.order.get("ready")
    if note is None or entry.process is None:
        return True
    try:
        return Path(note).read_text() == str(entry.process.pid)
    except OSError:
        return False


async def until_ended(process: Process) -> None:
    """Return when this very process has ended. No polling: the kernel tells."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        if process.alive():
            loop.add_reader(fd, ended.set)
            await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def end_processes(roots: Collection[Process], grace_s: float = STOP_GRACE_S) -> None:
    """End the processes and all their descendants: asked first, killed after the grace."""
    alive = {root for root in roots if root.alive()}
    everybody = await asyncio.to_thread(processes.tree, {root.pid for root in alive})
    for root in alive:
        root.send(signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace_s):
            await asyncio.gather(*(until_ended(process) for process in alive))
    everybody += await asyncio.to_thread(processes.tree, {p.pid for p in alive if p.alive()})
    for process in everybody:
        if process.alive():
            process.send(signal.SIGKILL)
    await asyncio.gather(*(until_ended(process) for process in everybody))
