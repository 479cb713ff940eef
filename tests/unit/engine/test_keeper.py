"""One look at a time: every step may be the first, and may be repeated."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from umbel.engine import keeper as keepers
from umbel.engine.engine import CannotLook, Engine, NotReady
from umbel.engine.keeper import Keeper
from umbel.model.federation import Federation
from umbel.model.status import Condition
from umbel.store.memory import MemoryStore
from umbel.testing import FakeFlower, FakeTarget, federation


@dataclass
class House:
    """A keeper over fakes."""

    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.target = FakeTarget(self.store)
        self.flower = FakeFlower(self.target)
        self.keeper = Keeper(Engine(self.store, self.target, self.flower), self.target, self.store)

    async def phase(self, document: Federation) -> str:
        return (await self.keeper.step(document)).phase

    def asked(self, verb: str) -> list[tuple[str, ...]]:
        return [tuple(rest) for first, *rest in self.target.log if first == verb]


@pytest.fixture
def house() -> House:
    return House()


async def test_a_step_makes_everything_and_another_one_nothing(house: House) -> None:
    assert await house.phase(federation()) == "Ready"
    ensured = len(house.asked("ensure"))
    assert await house.phase(federation()) == "Ready"
    assert len(house.asked("ensure")) == ensured


async def test_the_hub_is_made_before_the_sites(house: House) -> None:
    await house.keeper.step(federation(sites=1))
    hub, others = house.asked("ensure")
    assert all(name.startswith("hub/") for name in hub)
    assert not any(name.startswith("hub/") for name in others)


async def test_sites_are_admitted_only_by_a_hub_that_answers(house: House) -> None:
    await house.keeper.step(federation(sites=2))
    house.target.slow.add("hub/gate")
    await house.keeper.step(federation(sites=1))
    assert house.asked("revoke") == []
    house.target.slow.clear()
    await house.keeper.step(federation(sites=1))
    assert "local-2" not in house.target.fingerprints("lab")


async def test_a_step_does_not_wait_for_what_starts(house: House) -> None:
    house.target.slow.add("hub/superlink")
    assert await house.phase(federation()) == "Down"


async def test_a_site_that_is_not_wanted_any_more_is_removed(house: House) -> None:
    await house.keeper.step(federation(sites=2))
    await house.keeper.step(federation(sites=1))
    assert house.asked("remove") == [("local-2/client-exec", "local-2/supernode")]


async def test_of_a_site_that_changes_every_unit_is_asked_for(house: House) -> None:
    await house.keeper.step(federation(sites=1))
    await house.keeper.step(federation(sites=2))  # the first one's SuperNode hears of the other
    last = house.asked("ensure")[-1]
    assert {"local-1/client-exec", "local-1/supernode"} <= set(last)


async def test_who_cannot_look_changes_nothing(house: House) -> None:
    await house.keeper.step(federation(sites=2))
    house.target.blind = "the API server is away"
    asked = len(house.asked("ensure"))
    with pytest.raises(CannotLook):
        await house.keeper.step(federation(sites=3))
    assert len(house.asked("ensure")) == asked


async def test_what_is_in_the_way_is_the_reason_for_not_being_ready(house: House) -> None:
    house.target.in_the_way.append(
        Condition("ClustersChosen", "False", "BindingMissing", "not bound", "bind it")
    )
    status = await house.keeper.step(federation())
    assert (status.conditions[0].type, status.conditions[0].reason) == ("Ready", "BindingMissing")
    assert status.conditions[0].hint == "bind it"


async def test_up_tells_each_reason_once_and_returns_when_it_takes_runs(house: House) -> None:
    house.target.slow.add("hub/gate")
    said: list[str] = []
    turns = iter(range(3))

    async def changed() -> None:
        if next(turns) == 1:
            house.target.slow.clear()

    status = await house.keeper.up(federation(), said.append, changed)
    assert status.phase == "Ready"
    assert said == ["gate is starting"]


async def test_up_gives_up_when_its_time_is_over_and_says_why(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "UP_TIMEOUT_S", 0.01)
    house.target.slow.add("hub/gate")

    async def nothing_changes() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NotReady, match="gate is starting"):
        await house.keeper.up(federation(), lambda _: None, nothing_changes)
