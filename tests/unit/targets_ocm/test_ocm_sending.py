from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi, kept_up

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.model.federation import Federation
from umbel.model.status import Condition
from umbel.targets.ocm import environments
from umbel.targets.ocm.choosing import PLACEMENT
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.sending import Sending
from umbel.targets.ocm.watching import watched
from umbel.targets.ocm.writing import Writer

NAMES = Names("fl", "lab")
VISION = {"name": "vision", "app": "clinic/vision"}
TEXT = {"name": "text", "app": "clinic/text"}
KINDS = (kinds.WORK_SET, kinds.PLACEMENT)


def federation(*declared: Any, groups: Any = None) -> Federation:
    spec = {
        "superlink": {"on": "ocm"},
        "groups": groups or [{"name": "all", "on": "ocm"}],
        "runtime": {"environments": list(declared)},
    }
    return Federation.model_validate({"metadata": {"name": "lab"}, "spec": spec})


class Hub:
    """A hub with its cache, and what sends environments from there."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.kube = self.api.kube()
        self.cache = Cache(self.kube, watched(), lambda *_: None)
        self.sending = Sending(
            self.kube, Writer(self.kube, self.cache, "fl/lab"), self.cache, NAMES
        )

    async def send(self, *declared: Any, groups: Any = None) -> None:
        await self.sending.settle(federation(*declared, groups=groups), "umbel:1")

    def names(self, kind: kinds.Kind) -> set[str]:
        return {name.split("-")[1] for one, _, name in self.api.objects if one is kind}

    def is_so(self, name: str, wanted: int, variant: str = "", **summary: int) -> None:
        """Let OCM say how far an environment is."""
        own = environments.sent_by(federation(VISION, TEXT), NAMES, "", {})
        one = next(one for one in own if one.environment.name == name)
        key = replace(one, variant=replace(one.variant, key=variant)).name
        for kind, status in (
            (kinds.PLACEMENT, {"numberOfSelectedClusters": wanted}),
            (kinds.WORK_SET, self._status(wanted, **summary)),
        ):
            found = self.api.get(kind, key, "fl")
            assert found is not None
            kept = {part: found[part] for part in ("metadata", "spec")}
            self.api.put(kind, key, "fl", status=status, **kept)

    def _status(self, wanted: int, **summary: int) -> Any:
        done = wanted == summary.get("total") and not summary.get("progressing")
        rolled = {"type": "PlacementRolledOut", "status": "True" if done else "False"}
        return {"summary": summary, "conditions": [rolled]}

    def decide(self, name: str, *clusters: str) -> None:
        own = environments.sent_by(federation(VISION, TEXT), NAMES, "", {})
        key = next(one.name for one in own if one.environment.name == name)
        made = [{"clusterName": cluster} for cluster in clusters]
        self.api.put(
            kinds.DECISION, f"{key}-1", "fl",
            metadata={"labels": {PLACEMENT: key}}, status={"decisions": made},
        )  # fmt: skip

    async def seen(self) -> None:
        """Let the cache catch up."""
        for _ in range(50):
            await asyncio.sleep(0)

    @property
    def said(self) -> Condition:
        (found,) = self.sending.conditions()
        return found


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    made = Hub()
    async with kept_up(made.cache):
        yield made


async def test_a_federation_without_environments_says_nothing_of_them(hub: Hub) -> None:
    await hub.send()
    assert hub.sending.conditions() == []
    assert not any(kind in KINDS for kind, *_ in hub.api.objects)


async def test_every_environment_has_a_set_of_works_and_a_placement(hub: Hub) -> None:
    await hub.send(VISION, TEXT)
    for kind in KINDS:
        assert hub.names(kind) == {"vision", "text"}
    assert (hub.said.status, hub.said.reason) == ("False", "Sending")


async def test_what_is_so_is_not_written_again(hub: Hub) -> None:
    await hub.send(VISION)
    writes = hub.kube.writes
    await hub.seen()
    await hub.send(VISION)
    assert hub.kube.writes == writes


async def test_an_environment_that_is_not_declared_any_more_is_called_back(hub: Hub) -> None:
    await hub.send(VISION, TEXT)
    await hub.seen()
    await hub.send(TEXT)
    for kind in KINDS:
        assert hub.names(kind) == {"text"}
    await hub.seen()
    await hub.send()
    assert not any(kind in KINDS for kind, *_ in hub.api.objects)


async def test_other_placements_stay(hub: Hub) -> None:
    labels = NAMES.labels("site")
    hub.api.put(kinds.PLACEMENT, "lab-all", "fl", metadata={"labels": labels})
    await hub.seen()
    await hub.send()
    assert hub.api.get(kinds.PLACEMENT, "lab-all", "fl") is not None


async def test_all_is_well_when_every_chosen_cluster_has_it(hub: Hub) -> None:
    await hub.send(VISION, TEXT)
    hub.is_so("vision", 2, total=2, available=2)
    hub.is_so("text", 1, total=1, available=1)
    await hub.seen()
    assert (hub.said.status, hub.said.reason) == ("True", "Sent")
    assert hub.said.message == "vision: on 2 of 2 clusters; text: on 1 of 1 clusters"


async def test_a_rollout_under_way_is_told_with_numbers(hub: Hub) -> None:
    await hub.send(VISION)
    hub.is_so("vision", 3, total=2, progressing=1)
    await hub.seen()
    assert (hub.said.status, hub.said.reason) == ("False", "Sending")
    assert hub.said.message == "vision: on 1 of 3 clusters"


async def test_an_executor_that_does_not_come_up_is_told(hub: Hub) -> None:
    await hub.send(VISION, TEXT)
    hub.is_so("vision", 2, total=2, progressing=1, degraded=1)
    hub.is_so("text", 1, total=1)
    await hub.seen()
    assert (hub.said.status, hub.said.reason) == ("False", "ExecutorsFail")
    assert "fails on 1" in hub.said.message
    assert "manifestworks" in hub.said.hint


async def test_an_environment_that_fits_nowhere_is_told(hub: Hub) -> None:
    await hub.send(VISION)
    hub.is_so("vision", 0)
    await hub.seen()
    assert hub.said.reason == "NothingMatches"


async def test_a_hub_without_the_kind_is_told_and_nothing_is_made(hub: Hub) -> None:
    hub.api.served.discard(kinds.WORK_SET)
    await hub.send(VISION)
    assert hub.said.reason == "ManifestWorkReplicaSetOff"
    assert "featureGates" in hub.said.hint
    assert not any(kind in KINDS for kind, *_ in hub.api.objects)
    hub.api.served.add(kinds.WORK_SET)
    await hub.send(VISION)
    assert hub.said.reason == "Sending"


async def test_a_controller_that_does_not_react_is_told(hub: Hub) -> None:
    await hub.send(VISION)
    (key,) = [name for kind, _, name in hub.api.objects if kind is kinds.WORK_SET]
    found = hub.api.get(kinds.WORK_SET, key, "fl")
    assert found is not None
    long_ago = (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = {**found["metadata"], "creationTimestamp": long_ago}
    hub.api.put(kinds.WORK_SET, key, "fl", metadata=meta, spec=found["spec"])
    await hub.seen()
    assert hub.said.reason == "ManifestWorkReplicaSetOff"


async def test_an_unknown_group_stops_only_the_environment_that_names_it(hub: Hub) -> None:
    await hub.send({**VISION, "groups": ["nowhere"]}, TEXT)
    assert hub.said.reason == "UnknownGroup"
    assert hub.names(kinds.WORK_SET) == {"text"}


BERLIN_APART = [
    {
        "name": "all",
        "on": "ocm",
        "data": {"hostPath": "/a"},
        "kubernetes": {"clusters": {"berlin": {"hostPath": "/b"}}},
    }
]


async def test_clusters_with_values_of_their_own_get_a_set_of_their_own(hub: Hub) -> None:
    await hub.send(VISION, groups=BERLIN_APART)
    folders = {}
    for kind, namespace, name in hub.api.objects:
        if kind is kinds.WORK_SET:
            found = hub.api.get(kind, name, namespace)
            assert found is not None
            spec = found["spec"]["manifestWorkTemplate"]["workload"]["manifests"][1]["spec"]
            volumes = spec["template"]["spec"]["volumes"]
            folders[name] = [v["hostPath"]["path"] for v in volumes if "hostPath" in v]
    assert sorted(folders.values()) == [["/a"], ["/b"]]
    assert hub.names(kinds.WORK_SET) == {"vision"}
    await hub.send(VISION, groups=[{"name": "all", "on": "ocm"}])
    assert len([1 for kind, *_ in hub.api.objects if kind is kinds.WORK_SET]) == 1


async def test_an_environment_is_judged_by_all_its_clusters(hub: Hub) -> None:
    await hub.send(VISION, groups=BERLIN_APART)
    hub.is_so("vision", 2, total=2)
    await hub.seen()
    assert hub.said.message == "vision: on its way"
    hub.is_so("vision", 1, "all/berlin", total=1, progressing=1)
    await hub.seen()
    assert (hub.said.reason, hub.said.message) == ("Sending", "vision: on 2 of 3 clusters")
    hub.is_so("vision", 1, "all/berlin", total=1)
    await hub.seen()
    assert (hub.said.reason, hub.said.message) == ("Sent", "vision: on 3 of 3 clusters")


async def test_it_is_known_where_an_app_can_run(hub: Hub) -> None:
    again = {**TEXT, "name": "more", "app": "clinic/vision"}
    await hub.send(VISION, TEXT, again)
    hub.decide("vision", "boston", "berlin")
    await hub.seen()
    assert hub.sending.sites() == {"clinic/vision": ["berlin", "boston"], "clinic/text": []}
