from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from umbel.engine.runs import NothingToPull, Runs, RunUnknown, SiteUnknown
from umbel.model.event import Event, RoundEnded, RunBegan, to_line
from umbel.model.status import RunStatus
from umbel.store.memory import MemoryStore
from umbel.testing import FakeFlower, FakeTarget, run, unit


class World:
    """Runs over fakes, with folders that a test fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = FakeTarget(MemoryStore(), runs=folder)
        self.flower = FakeFlower(self.target)
        self.runs = Runs(self.flower, self.target)

    def write(self, site: str, name: str, text: str, run_id: str = "11") -> None:
        path = self.folder / site / run_id / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    def tell(self, site: str, *events: Event) -> None:
        self.write(site, "events.jsonl", "".join(to_line(event) + "\n" for event in events))

    def end(self, status: str = "completed") -> None:
        self.flower.listed = [replace(r, status=status) for r in self.flower.listed]


@pytest.fixture
async def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    await made.target.ensure([unit("hub/gate"), unit("a/supernode"), unit("b/supernode")])
    made.flower.listed = [run("112", "running"), run("11", "running"), run("9", "failed")]
    return made


def began(at: str = "1", rounds: int = 2) -> RunBegan:
    return RunBegan("11", at, "FedAvg", rounds)


def ended(number: int, at: str, **metrics: float) -> RoundEnded:
    return RoundEnded("11", at, number, 0.5, 2, 0, {}, metrics, {})


async def collect(source: AsyncIterator[tuple[str, str]]) -> list[tuple[str, str]]:
    return [item async for item in source]


async def test_a_run_is_found_by_its_id_or_by_a_prefix_that_only_it_has(world: World) -> None:
    assert (await world.runs.get("lab", "112")).run_id == "112"
    assert (await world.runs.get("lab", "11")).run_id == "11"
    assert (await world.runs.get("lab", "9")).run_id == "9"


@pytest.mark.parametrize("wanted", ["1", "7", "1123"])
async def test_a_run_that_is_none_or_could_be_several_is_unknown(world: World, wanted: str) -> None:
    with pytest.raises(RunUnknown) as told:
        await world.runs.get("lab", wanted)
    assert told.value.hint == "newest runs: 112, 11, 9"


async def test_without_any_run_the_error_says_how_to_start_one(world: World) -> None:
    world.flower.listed = []
    with pytest.raises(RunUnknown) as told:
        await world.runs.get("lab", "1")
    assert told.value.hint == "umbel run APP starts one"


async def test_runs_carry_what_their_events_tell(world: World) -> None:
    world.tell("hub", began(), ended(1, "2", loss=0.5, accuracy=0.8))
    found = {r.run_id: r for r in await world.runs.all("lab")}
    assert (found["11"].rounds_done, found["11"].rounds) == (1, 2)
    assert (found["11"].loss, found["11"].accuracy) == (0.5, 0.8)
    assert found["9"].rounds_done == 0


async def test_an_app_is_submitted_with_its_config(world: World, tmp_path: Path) -> None:
    made = await world.runs.start("lab", tmp_path, {"rounds": 3})
    assert made.status == "pending"
    assert world.flower.submitted == [(tmp_path, {"rounds": 3})]


async def test_stopping_tells_flower_and_ends_the_processes(world: World) -> None:
    stopped = await world.runs.stop("lab", "11")
    assert stopped.status == "stopped"
    assert (world.flower.stopped, world.target.ended) == (["11"], ["11"])


async def test_stopping_what_has_ended_changes_nothing(world: World) -> None:
    assert (await world.runs.stop("lab", "9")).status == "failed"
    assert world.flower.stopped == []
    assert (await world.runs.stop("lab", "11")).status == "stopped"
    assert (await world.runs.stop("lab", "11")).status == "stopped"
    assert world.flower.stopped == ["11"]


async def test_following_an_ended_run_gives_its_events_in_order_and_returns(world: World) -> None:
    world.tell("a", ended(1, "3"))
    world.tell("hub", began("1"), ended(2, "4"))
    world.end()
    seen = [item async for item in world.runs.follow("lab", "11")]
    assert isinstance(seen[0], RunStatus)
    assert [e.at for e in seen[1:] if not isinstance(e, RunStatus)] == ["1", "3", "4"]


async def test_following_gives_events_as_they_come_and_returns_after_the_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("umbel.engine.runs.LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr("umbel.engine.runs.ASK_AGAIN_S", 0.0)
    kinds: list[str] = []
    async for item in world.runs.follow("lab", "11"):
        kinds.append(item.status if isinstance(item, RunStatus) else item.kind)
        if len(kinds) == 1:
            world.tell("hub", began())
        elif kinds[-1] == "run-began":
            world.tell("hub", ended(1, "2"))
            world.end()
    assert kinds[:2] == ["running", "run-began"]
    assert sorted(kinds[2:]) == ["completed", "round-ended"]


async def test_logs_are_the_serverapps_unless_a_site_is_named(world: World) -> None:
    world.write("hub", "log.txt", "at the hub\n")
    world.write("a", "log.txt", "at a\nhalf a line")
    world.end()
    at_hub = await collect(world.runs.logs("lab", "11", site=None, follow=False))
    at_a = await collect(world.runs.logs("lab", "11", site="a", follow=False))
    everywhere = await collect(world.runs.logs("lab", "11", site="all", follow=False))
    assert at_hub == [("hub", "at the hub")]
    assert at_a == [("a", "at a"), ("a", "half a line")]
    assert sorted(everywhere) == sorted([*at_hub, *at_a])


async def test_a_site_that_the_run_did_not_reach_is_told_with_those_it_did(world: World) -> None:
    world.write("hub", "log.txt", "x\n")
    with pytest.raises(SiteUnknown) as told:
        await collect(world.runs.logs("lab", "11", site="b", follow=False))
    assert told.value.hint == "logs: hub"


async def test_following_a_log_ends_with_the_run_and_loses_no_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("umbel.engine.runs.LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr("umbel.engine.runs.ASK_AGAIN_S", 0.0)
    world.write("hub", "log.txt", "one\ntw")
    lines = []
    async for _, line in world.runs.logs("lab", "11", site=None, follow=True):
        lines.append(line)
        if line == "one":
            world.write("hub", "log.txt", "o\nthree")
            world.end()
    assert lines == ["one", "two", "three"]


async def test_files_of_a_run_are_those_at_the_hub_without_the_hidden_ones(world: World) -> None:
    for name in ("model.npz", "log.txt", "work/mine.csv", ".model.npz"):
        world.write("hub", name, "x")
    world.write("a", "secret.txt", "x")
    names = [
        p.relative_to(world.folder / "hub" / "11") for p in await world.runs.files("lab", "11")
    ]
    assert [str(name) for name in names] == ["log.txt", "model.npz", "work/mine.csv"]


async def test_a_run_with_nothing_but_a_log_has_nothing_to_pull(world: World) -> None:
    with pytest.raises(NothingToPull):
        await world.runs.files("lab", "11")
    world.write("hub", "log.txt", "x")
    world.write("hub", "events.jsonl", "x")
    with pytest.raises(NothingToPull):
        await world.runs.files("lab", "11")
