"""A changed hub comes into force between rounds, and nobody's run is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from tests.unit.kube.fake_api import FakeApi, kept_up

from umbel.errors import UmbelError
from umbel.gate.refusals import HubUnreachable
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.kinds import Object
from umbel.model.status import Rounds
from umbel.targets.ocm import trial
from umbel.targets.ocm.desk import DeskClient
from umbel.targets.ocm.names import FEDERATION, Names
from umbel.targets.ocm.upkeep import BROUGHT, Upkeep
from umbel.targets.ocm.watching import watched

NAMES = Names("fl", "lab")
TRIED = trial.name_of(NAMES)
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
class Story:
    api: FakeApi
    cache: Cache
    upkeep: Upkeep
    desk: Desk = field(default_factory=Desk)

    async def hub(self, pod: dict[str, Any], wanted: dict[str, str], **placed: Any) -> None:
        """Have a hub whose pod is not as wanted."""
        labels = {FEDERATION: NAMES.addon}
        containers = [{"name": n, "image": wanted.get(n, "umbel:1")} for n in CONTAINERS]
        self.api.put(
            kinds.STATEFUL_SET,
            NAMES.hub,
            "fl",
            metadata={"labels": labels, "uid": "1-2-3"},
            spec={
                "selector": {"matchLabels": labels},
                "template": {"spec": {"containers": containers, **placed}},
            },
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

    async def tried(self, **status: Any) -> None:
        """Let the trial's pod come so far."""
        found = self.api.get(kinds.POD, TRIED, "fl")
        assert found is not None
        kept = {part: found[part] for part in ("metadata", "spec")}
        self.api.put(kinds.POD, TRIED, "fl", status=status, **kept)
        cached = self.cache[kinds.POD]
        await self.api.until(lambda: (cached.get(TRIED, "fl") or {}).get("status") == status)

    async def gate_secret(self, content: str) -> None:
        """Have another Secret of the gate."""
        name, labels = NAMES.gate_secret, {FEDERATION: NAMES.addon}
        self.api.put(kinds.SECRET, name, "fl", metadata={"labels": labels}, data={"a": content})
        cached = self.cache[kinds.SECRET]
        await self.api.until(lambda: (cached.get(name, "fl") or {}).get("data") == {"a": content})

    async def note(self) -> str:
        """Give what is noted on the pod, once everybody sees it."""
        assert self.pod is not None
        cached, name = self.cache[kinds.POD], f"{NAMES.hub}-0"
        await self.api.until(lambda: cached.get(name, "fl") == self.pod)
        return str(self.pod["metadata"]["annotations"][BROUGHT])

    async def goes_well(self) -> None:
        """Try what is wanted, with success."""
        await self.upkeep.look()
        assert [c.reason for c in self.upkeep.found] == ["TryingHub"]
        await self.tried(phase="Succeeded")

    @property
    def pod(self) -> Object | None:
        return self.api.get(kinds.POD, f"{NAMES.hub}-0", "fl")

    @property
    def written(self) -> list[str]:
        return [line for line in self.api.asked if line.startswith(("PATCH", "DELETE"))]


def now(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")


@pytest.fixture
async def story() -> AsyncIterator[Story]:
    api, desk = FakeApi(), Desk()
    async with api.kube() as kube:
        cache = Cache(kube, watched(), lambda *_: None)
        upkeep = Upkeep(kube, cache, NAMES, lambda: cast("DeskClient", desk))
        async with kept_up(cache):
            yield Story(api, cache, upkeep, desk)


async def test_without_runs_the_pod_is_made_anew(story: Story) -> None:
    await story.hub({}, {"exec": "umbel:2"})
    await story.goes_well()
    await story.upkeep.look()
    assert story.pod is None


async def test_in_a_round_nothing_happens(story: Story) -> None:
    await story.hub({}, {"gate": "umbel:2"})
    story.desk.now = Rounds(1, in_round=True)
    await story.goes_well()
    await story.upkeep.look()
    assert story.written == []
    assert [c.reason for c in story.upkeep.found] == ["WaitingForRuns"]


async def test_between_rounds_only_what_a_run_survives_changes(story: Story) -> None:
    await story.hub({}, dict.fromkeys(CONTAINERS, "umbel:2"))
    story.desk.now = Rounds(1, in_round=False)
    await story.goes_well()
    await story.upkeep.look()
    assert len(story.written) == 1
    assert story.pod is not None


async def test_what_only_a_new_pod_can_bring_waits_for_the_runs_to_end(story: Story) -> None:
    await story.hub({}, {"exec": "umbel:2"})
    story.desk.now = Rounds(1, in_round=False)
    await story.goes_well()
    await story.upkeep.look()
    assert story.written == []


async def test_a_pod_that_just_restarts_is_given_time(story: Story) -> None:
    await story.hub({"status": "False", "lastTransitionTime": now(-5)}, {"gate": "umbel:2"})
    await story.upkeep.look()
    assert story.written == []


async def test_a_pod_that_does_not_come_up_is_made_anew(story: Story) -> None:
    await story.hub({"status": "False", "lastTransitionTime": now(-600)}, {"gate": "umbel:2"})
    await story.upkeep.look()
    assert story.pod is None


async def test_who_cannot_ask_waits(story: Story) -> None:
    await story.hub({}, {"exec": "umbel:2"})
    story.desk.now = HubUnreachable("lab.fl.svc:9093", "refused")
    await story.goes_well()
    await story.upkeep.look()
    assert story.written == []
    assert story.upkeep.found


async def test_the_kubelet_is_told_once_of_each_secret_of_the_gate(story: Story) -> None:
    await story.hub({}, {"exec": "umbel:2"})
    story.desk.now = Rounds(1, in_round=True)
    notes = []
    for content in ("one", "two"):
        await story.gate_secret(content)
        await story.upkeep.look()
        notes.append(await story.note())
        await story.upkeep.look()
    assert len(set(notes)) == len(story.written) == 2


async def test_a_change_that_keeps_images_and_nodes_needs_no_trial(story: Story) -> None:
    await story.hub({}, {})
    await story.upkeep.look()
    assert story.pod is None


WAITS = {"image": "umbel:2", "state": {"waiting": {"reason": "ErrImagePull", "message": "gone"}}}
FAILS = {"image": "umbel:2", "state": {"terminated": {"exitCode": 1, "message": "no module"}}}
NO_NODE = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/3 nodes are available"}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"phase": "Pending", "containerStatuses": [WAITS]}, "umbel:2: ErrImagePull: gone"),
        ({"phase": "Failed", "containerStatuses": [FAILS]}, "umbel:2: exit code 1: no module"),
        ({"phase": "Pending", "conditions": [NO_NODE]}, "0/3 nodes are available"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)
async def test_a_hub_that_would_not_start_leaves_the_one_that_works(
    story: Story, status: Any, words: str
) -> None:
    await story.hub({}, {"exec": "umbel:2"})
    await story.upkeep.look()
    await story.tried(**status)
    await story.upkeep.look()
    (said,) = story.upkeep.found
    assert (said.status, said.reason) == ("False", "HubTrialFailed")
    assert words in said.message
    assert story.pod is not None


async def test_other_nodes_are_tried_too(story: Story) -> None:
    await story.hub({}, {}, nodeSelector={"disk": "fast"})
    await story.upkeep.look()
    found = story.api.get(kinds.POD, TRIED, "fl")
    assert found is not None
    assert found["spec"]["nodeSelector"] == {"disk": "fast"}


async def test_a_trial_of_something_else_is_ended(story: Story) -> None:
    await story.hub({}, {"exec": "umbel:2"})
    await story.goes_well()
    whole = story.api.get(kinds.STATEFUL_SET, NAMES.hub, "fl")
    assert whole is not None
    kept = {part: whole[part] for part in ("metadata", "spec")}
    status = {**whole["status"], "updateRevision": "newer"}
    story.api.put(kinds.STATEFUL_SET, NAMES.hub, "fl", status=status, **kept)
    cached = story.cache[kinds.STATEFUL_SET]
    await story.api.until(lambda: "newer" in str(cached.get(NAMES.hub, "fl")))
    await story.upkeep.look()
    assert story.api.get(kinds.POD, TRIED, "fl") is None
    assert story.pod is not None


async def test_a_hub_that_is_as_wanted_keeps_no_trial(story: Story) -> None:
    await story.hub({}, {"exec": "umbel:2"})
    await story.goes_well()
    await story.upkeep.look()
    assert story.pod is None
    await story.api.until(lambda: story.cache[kinds.POD].get(f"{NAMES.hub}-0", "fl") is None)
    await story.upkeep.look()
    assert story.api.get(kinds.POD, TRIED, "fl") is None
