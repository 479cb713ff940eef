"""What every target promises: the fake that other tests lean on, and this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from umbel.model.federation import Federation
from umbel.model.unit import Kind, Present, Unit
from umbel.planning import diff, render
from umbel.ports import Store, Target
from umbel.store.memory import MemoryStore
from umbel.testing import FakeTarget, federation
from umbel.wiring import build_house

LOOK_AGAIN_S = 0.05
LONGEST_S = 60


class Trial:
    """A target, its store, and the steps that an engine takes."""

    def __init__(self, store: Store, target: Target) -> None:
        self.store = store
        self.target = target

    async def wanted(self, document: Federation) -> dict[str, Unit]:
        chosen = {
            group.name: [site.name for site in render.declared_sites(group)]
            for group in document.spec.groups
        }
        names = [name for sites in chosen.values() for name in sites]
        return render.render(document, chosen, await self.target.allot(document, names))

    async def up(self, document: Federation) -> dict[str, Unit]:
        """Bring the hub and the SuperNodes up, as the engine does."""
        units = await self.wanted(document)
        self.store.save_federation(document)
        await self.target.prepare(document)
        for kinds in ((Kind.SUPERLINK, Kind.GATE), (Kind.SUPERNODE,)):
            stage = {name: unit for name, unit in units.items() if unit.kind in kinds}
            await self.target.ensure(diff.in_order(stage))
            await self.until_ready(document.name, stage)
        return {n: u for n, u in units.items() if u.kind is not Kind.SERVER_EXEC}

    async def until_ready(self, name: str, units: Mapping[str, Unit]) -> None:
        async with asyncio.timeout(LONGEST_S):
            while not diff.all_ready(units, await self.target.observe(name)):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_AGAIN_S)


@pytest.fixture(params=["fake", "local"])
async def trial(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Trial]:
    if request.param == "fake":
        store = MemoryStore()
        yield Trial(store, FakeTarget(store))
        return
    house = build_house(tmp_path / "home")
    yield Trial(house.store, house.target)
    for name in list(house.engine.known()):
        await house.target.destroy(name, keep_data=False)
    await house.supervisor.close()
    await house.nursery.dismiss()
    house.store.close()
    if (process := house.nursery._process) is not None:
        assert await asyncio.to_thread(process.wait, LONGEST_S) is not None


async def test_sites_are_those_that_the_document_declares(trial: Trial) -> None:
    sites = [{"name": "a", "labels": {"gpu": "true"}}, {"name": "b"}]
    gpu = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"gpu": "true"}}}}
    group = {"name": "g", "sites": sites, "placement": {"predicates": [gpu]}}
    found = await trial.target.place(federation(groups=[group]))
    assert {v.site: v.chosen for v in found["g"]} == {"a": True, "b": False}


async def test_ports_and_partitions_are_distinct_and_given_for_good(trial: Trial) -> None:
    first = await trial.target.allot(federation(), ["a", "b"])
    assert set(first.ports) == {"fleet", "control", "runtime", "site/a", "site/b"}
    assert len(set(first.ports.values())) == 5
    assert first.partitions == {"a": 0, "b": 1}
    assert trial.store.allotment("lab") == first
    assert await trial.target.allot(federation(), ["a", "b"]) == first


async def test_a_site_that_goes_and_comes_back_keeps_its_partition(trial: Trial) -> None:
    first = await trial.target.allot(federation(), ["a", "b"])
    await trial.target.allot(federation(), ["b"])
    again = await trial.target.allot(federation(), ["b", "c", "a"])
    assert again.partitions == {**first.partitions, "c": 2}


async def test_what_was_never_there_is_seen_as_nothing(trial: Trial) -> None:
    assert await trial.target.observe("nobody") == {}
    assert not await trial.target.certificates("nobody")
    assert trial.target.fingerprints("nobody") == {}


async def test_ending_what_was_never_there_is_no_error(trial: Trial) -> None:
    await trial.target.destroy("nobody", keep_data=False)
    await trial.target.destroy("nobody", keep_data=True)


async def test_a_federation_lives_and_ends(trial: Trial) -> None:
    """One life for all promises, since a real one takes seconds."""
    target, document = trial.target, federation(sites=2)
    units = await trial.up(document)
    started = {n: u for n, u in units.items() if u.kind is not Kind.CLIENT_EXEC}
    seen = await target.observe("lab")
    assert diff.diff("lab", started, seen).changes == ()
    assert all(isinstance(s, Present) and s.settings for n, s in seen.items() if "link" not in n)
    keys = dict(target.fingerprints("lab"))
    assert sorted(keys) == ["local-1", "local-2"]
    assert len(set(keys.values())) == 2

    await target.prepare(document)
    assert target.fingerprints("lab") == keys
    assert await target.observe("lab") == seen

    await target.remove("lab", ["local-2/supernode"])
    await target.remove("lab", ["local-2/supernode"])
    assert sorted(await target.observe("lab")) == sorted(set(started) - {"local-2/supernode"})
    assert target.fingerprints("lab") == {"local-1": keys["local-1"]}

    await target.destroy("lab", keep_data=True)
    await target.destroy("lab", keep_data=True)
    assert await target.observe("lab") == {}
    assert target.fingerprints("lab") == {"local-1": keys["local-1"]}

    await target.destroy("lab", keep_data=False)
    assert target.fingerprints("lab") == {}
    assert not await target.certificates("lab")
