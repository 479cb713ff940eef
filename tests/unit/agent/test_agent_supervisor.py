from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from umbel.agent import backoff, supervisor
from umbel.agent.nursery_client import NurseryClient, NurseryFailed
from umbel.agent.processes import Process
from umbel.agent.supervisor import Supervisor
from umbel.model.unit import Health, Kind, Unit
from umbel.ports import Kept
from umbel.store.memory import MemoryStore
from umbel.testing import unit

GATE = unit("hub/gate")


class Stage:
    """A nursery whose processes live in a test, by number."""

    def __init__(self) -> None:
        self.orders: list[Mapping[str, Any]] = []
        self.ends: dict[int, asyncio.Event] = {}
        self.broken = ""

    async def ensure(self) -> None:
        if self.broken:
            raise NurseryFailed(self.broken)

    async def spawn(self, order: Mapping[str, Any]) -> Process:
        self.orders.append(order)
        pid = 1000 + len(self.orders)
        self.ends[pid] = asyncio.Event()
        return Process(pid, 1)

    def end(self, pid: int) -> None:
        self.ends[pid].set()

    async def until_ended(self, process: Process) -> None:
        await self.ends[process.pid].wait()

    def alive(self, process: Process) -> bool:
        return process.pid in self.ends and not self.ends[process.pid].is_set()


class Watched:
    """A supervisor on that stage, and the waits that it made."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stage = Stage()
        self.store = MemoryStore()
        self.waits: list[int] = []
        self.ended: list[set[Process]] = []
        self._folder = folder
        self.signed_off: list[str] = []
        self.supervisor = Supervisor(
            self.store, cast("NurseryClient", self.stage), self._order, self._sign_off
        )
        monkeypatch.setattr(supervisor, "until_ended", self.stage.until_ended)
        monkeypatch.setattr(supervisor, "end_processes", self._end)
        monkeypatch.setattr(Process, "alive", lambda p: self.stage.alive(p))  # noqa: PLW0108  # must bind
        monkeypatch.setattr(backoff, "delay_s", self._delay)

    def _order(self, what: Unit) -> Mapping[str, Any]:
        name = what.name.replace("/", "-")
        return {"log": str(self._folder / name), "exit": str(self._folder / f"{name}.exit")}

    async def _sign_off(self, what: Unit) -> None:
        self.signed_off.append(what.site)

    async def _end(self, roots: set[Process], grace_s: float) -> None:
        assert grace_s > 0
        self.ended.append(set(roots))
        for root in roots:
            self.stage.end(root.pid)

    def _delay(self, failures: int, _kind: Kind) -> float:
        self.waits.append(failures)
        return 0.0

    async def until_spawned(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.stage.orders) < count:  # noqa: ASYNC110  # the stage has no bell
                await asyncio.sleep(0)

    def seen(self) -> Any:
        return self.supervisor.observe("lab")["hub/gate"]


@pytest.fixture
async def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    made = Watched(tmp_path, monkeypatch)
    yield made
    await made.supervisor.close()


async def test_a_unit_that_was_started_is_ready_and_remembered(watched: Watched) -> None:
    await watched.supervisor.start(GATE)
    assert watched.seen().health is Health.READY
    assert watched.seen().fingerprint == GATE.fingerprint
    assert watched.store.units("lab")["hub/gate"] == Kept(GATE, 1001, 1)


async def test_a_unit_that_ends_is_started_again_and_says_why_meanwhile(
    watched: Watched, tmp_path: Path
) -> None:
    await watched.supervisor.start(GATE)
    (tmp_path / "hub-gate").write_text("U241 port taken\n")
    (tmp_path / "hub-gate.exit").write_text("1001 3\n")
    watched.stage.end(1001)
    assert watched.seen().health is Health.STARTING
    await watched.until_spawned(2)
    assert watched.waits == [1]
    assert watched.store.units("lab")["hub/gate"].pid == 1002
    assert watched.seen().restarts == 1


async def test_a_unit_that_cannot_be_started_fails_with_the_reason(watched: Watched) -> None:
    watched.stage.broken = "no memory"
    await watched.supervisor.start(GATE)
    assert watched.seen().health is Health.FAILING
    assert "no memory" in watched.seen().message
    watched.stage.broken = ""
    await watched.until_spawned(1)
    assert watched.seen().health is Health.READY
    assert watched.seen().message == ""


async def test_the_exit_code_of_an_older_process_is_not_taken_for_this_one(
    watched: Watched, tmp_path: Path
) -> None:
    await watched.supervisor.start(GATE)
    (tmp_path / "hub-gate.exit").write_text("999 77\n")
    watched.stage.end(1001)
    await watched.until_spawned(2)
    entry = watched.supervisor._entries["lab", "hub/gate"]
    assert entry.message.startswith("ended with ?, start 2 follows")


async def test_stopping_ends_the_process_and_forgets_the_unit(watched: Watched) -> None:
    await watched.supervisor.start(GATE)
    await watched.supervisor.stop("lab", ["hub/gate", "hub/unknown"])
    assert watched.ended == [{Process(1001, 1)}]
    assert watched.supervisor.observe("lab") == {}
    assert watched.store.units("lab") == {}
    assert len(watched.stage.orders) == 1


async def test_starting_again_replaces_what_ran(watched: Watched) -> None:
    await watched.supervisor.start(GATE)
    await watched.supervisor.start(unit("hub/gate", port=2))
    assert watched.ended == [{Process(1001, 1)}]
    assert watched.seen().settings == {"port": 2}
    assert watched.store.units("lab")["hub/gate"].pid == 1002


async def test_what_a_former_daemon_started_is_adopted_not_started_again(watched: Watched) -> None:
    watched.stage.ends[500] = asyncio.Event()
    watched.store.save_unit(Kept(GATE, 500, 1))
    watched.supervisor.adopt("lab")
    await asyncio.sleep(0)
    assert watched.seen().health is Health.READY
    assert watched.stage.orders == []
    watched.stage.end(500)
    await watched.until_spawned(1)


async def test_what_ended_while_nobody_watched_is_started_at_once(watched: Watched) -> None:
    watched.store.save_unit(Kept(GATE, 500, 1))
    watched.supervisor.adopt("lab")
    watched.supervisor.adopt("lab")
    await watched.until_spawned(1)
    assert watched.waits == []
    assert len(watched.stage.orders) == 1


async def test_closing_leaves_the_processes_running(watched: Watched) -> None:
    await watched.supervisor.start(GATE)
    await watched.supervisor.close()
    assert watched.ended == []
    assert not watched.stage.ends[1001].is_set()
    assert watched.store.units("lab")


async def test_federations_are_observed_apart(watched: Watched) -> None:
    await watched.supervisor.start(GATE)
    await watched.supervisor.start(unit("hub/gate", "other"))
    assert list(watched.supervisor.observe("lab")) == ["hub/gate"]
    assert watched.supervisor.observe("nobody") == {}


async def test_a_supernode_that_dies_is_signed_off_before_it_comes_back(watched: Watched) -> None:
    await watched.supervisor.start(unit("north/supernode"))
    watched.stage.end(1001)
    await watched.until_spawned(2)
    assert watched.signed_off == ["north"]
