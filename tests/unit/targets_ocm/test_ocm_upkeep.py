"""A changed hub comes into force between rounds, and nobody's run is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from tests.unit.kube.fake_api import FakeApi

from umbel.errors import UmbelError
from umbel.gate.refusals import HubUnreachable
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.kinds import Object
from umbel.model.status import Rounds
from umbel.targets.ocm.desk import DeskClient
from umbel.targets.ocm.names import FEDERATION, Names
from umbel.targets.ocm.upkeep import Upkeep
from umbel.targets.ocm.watching import watched

NAMES = Names("fl", "lab")
CONTAINERS = ("superlink", "gate", "desk", "exec")


class Desk:
    """Says whether a round runs."""

    def __init__(self) -> None:
        self.now: Rounds | UmbelError = Rounds(0, in_round=False)

    async def rounds(self) -> Rounds:
        if isinstance(self.now, UmbelError):
            raise self.now
        return self.now


@dataclass
class Trial:
    api: FakeApi
    cache: Cache
    upkeep: Upkeep
    desk: Desk = field(default_factory=Desk)

    async def hub(self, pod: dict[str, Any], wanted: dict[str, str]) -> None:
        """Have a hub whose pod is not as wanted."""
        labels = {FEDERATION: NAMES.addon}
        containers = [{"name": n, "image": wanted.get(n, "umbel:1")} for n in CONTAINERS]
        self.api.put(
            kinds.STATEFUL_SET,
            NAMES.hub,
            "fl",
            metadata={"labels": labels},
            spec={"template": {"spec": {"containers": containers}}},
            status={"observedGeneration": 1, "updateRevision": "new"},
        )
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now(-600), **pod}
        self.api.put(
            kinds.POD,
            f"{NAMES.hub}-0",
            "fl",
            metadata={"labels": {**labels, "controller-revision-hash": "old"}},
            spec={"containers": [{"name": n, "image": "umbel:1"} for n in CONTAINERS]},
            status={"conditions": [ready]},
        )
        await self.api.until(lambda: self.cache[kinds.POD].get(f"{NAMES.hub}-0", "fl"))
        await self.api.until(lambda: self.cache[kinds.STATEFUL_SET].get(NAMES.hub, "fl"))

    @property
    def pod(self) -> Object | None:
        return self.api.get(kinds.POD, f"{NAMES.hub}-0", "fl")

    @property
    def written(self) -> list[str]:
        return [line for line in self.api.asked if line.startswith(("PATCH", "DELETE"))]


def now(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")


@pytest.fixture
async def trial() -> AsyncIterator[Trial]:
    api, desk = FakeApi(), Desk()
    async with api.kube() as kube:
        cache = Cache(kube, watched(), lambda *_: None)
        running = asyncio.create_task(cache.run())
        await cache.filled()
        upkeep = Upkeep(kube, cache, NAMES, lambda: cast("DeskClient", desk))
        yield Trial(api, cache, upkeep, desk)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_without_runs_the_pod_is_made_anew(trial: Trial) -> None:
    await trial.hub({}, {"exec": "umbel:2"})
    await trial.upkeep.look()
    assert trial.pod is None


async def test_in_a_round_nothing_happens(trial: Trial) -> None:
    await trial.hub({}, {"gate": "umbel:2"})
    trial.desk.now = Rounds(1, in_round=True)
    await trial.upkeep.look()
    assert trial.written == []
    assert [c.reason for c in trial.upkeep.found] == ["WaitingForRuns"]


async def test_between_rounds_only_what_a_run_survives_changes(trial: Trial) -> None:
    await trial.hub({}, dict.fromkeys(CONTAINERS, "umbel:2"))
    trial.desk.now = Rounds(1, in_round=False)
    await trial.upkeep.look()
    assert len(trial.written) == 1
    assert trial.pod is not None


async def test_what_only_a_new_pod_can_bring_waits_for_the_runs_to_end(trial: Trial) -> None:
    await trial.hub({}, {"exec": "umbel:2"})
    trial.desk.now = Rounds(1, in_round=False)
    await trial.upkeep.look()
    assert trial.written == []


async def test_a_pod_that_just_restarts_is_given_time(trial: Trial) -> None:
    await trial.hub({"status": "False", "lastTransitionTime": now(-5)}, {"gate": "umbel:2"})
    await trial.upkeep.look()
    assert trial.written == []


async def test_a_pod_that_does_not_come_up_is_made_anew(trial: Trial) -> None:
    await trial.hub({"status": "False", "lastTransitionTime": now(-600)}, {"gate": "umbel:2"})
    await trial.upkeep.look()
    assert trial.pod is None


async def test_who_cannot_ask_waits(trial: Trial) -> None:
    await trial.hub({}, {"exec": "umbel:2"})
    trial.desk.now = HubUnreachable("lab.fl.svc:9093", "refused")
    await trial.upkeep.look()
    assert trial.written == []
    assert trial.upkeep.found
