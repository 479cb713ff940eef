"""Before the first `up`, a plan shows what OCM will decide; what nobody can tell is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi, kept_up

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.model.federation import Federation
from umbel.model.plan import Step
from umbel.store.memory import MemoryStore
from umbel.targets.ocm import choosing
from umbel.targets.ocm.choosing import PLACEMENT
from umbel.targets.ocm.foreseeing import FORESEEN
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.sending import Sending
from umbel.targets.ocm.settings import OcmSettings
from umbel.targets.ocm.target import OcmTarget
from umbel.targets.ocm.watching import watched
from umbel.targets.ocm.writing import Writer

NAMES = Names("fl", "lab")
VISION = {"name": "vision", "app": "clinic/vision"}
EVERY: Any = {"spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}}
SATISFIED = {"type": "PlacementSatisfied", "status": "True"}
CLUSTERS = "GET /apis/cluster.open-cluster-management.io/v1/managedclusters"


def labelled(key: str) -> Any:
    wanted = {"labelSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
    return [{"requiredClusterSelector": wanted}]


def federation(*groups: Any, environments: Any = ()) -> Federation:
    declared = [{"on": "ocm", **g} for g in groups] or [{"name": "all", "on": "ocm"}]
    runtime = {"environments": list(environments)}
    spec = {"superlink": {"on": "ocm"}, "groups": declared, "runtime": runtime}
    return Federation.model_validate({"metadata": {"name": "lab"}, "spec": spec})


class Hub:
    """A hub with clusters a, b (gpu) and c (gpu, leaving soon)."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.kube = self.api.kube()
        self.cache = Cache(self.kube, watched(), lambda *_: None)
        for name, labels in (("a", {}), ("b", {"gpu": "1"}), ("c", {"gpu": "1"})):
            self.api.put(kinds.CLUSTER, name, metadata={"labels": labels})
        self.api.put(kinds.CLUSTER_SET, "global", **EVERY)
        self.target = OcmTarget(self.kube, self.cache, MemoryStore(), NAMES, OcmSettings())

    async def seen(self) -> None:
        """Let the cache catch up."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def predict(self, document: Federation) -> tuple[dict[str, list[str]], list[Step]]:
        more = await self.target.predict(document)
        groups = await self.target.place(document)
        return {g: [v.site for v in found if v.chosen] for g, found in groups.items()}, more

    async def decide(self, document: Federation, *clusters: str) -> None:
        """Let OCM decide about the first group by what the document says."""
        placement = choosing.placement(NAMES, document.spec.groups[0])
        made = await Writer(self.kube, self.cache, "fl/lab").have(placement)
        name, count = made["metadata"]["name"], len(clusters)
        status = {"numberOfSelectedClusters": count, "conditions": [SATISFIED]}
        self.api.put(kinds.PLACEMENT, name, "fl", metadata=made["metadata"], status=status)
        self.api.put(
            kinds.DECISION, f"{name}-1", "fl", metadata={"labels": {PLACEMENT: name}},
            status={"decisions": [{"clusterName": cluster} for cluster in clusters]},
        )  # fmt: skip
        await self.seen()


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    made = Hub()
    async with kept_up(made.cache):
        yield made


async def test_before_the_first_time_sites_are_foreseen_and_nothing_is_made(hub: Hub) -> None:
    before = dict(hub.api.objects)
    found, more = await hub.predict(
        federation({"name": "gpu", "placement": {"predicates": labelled("gpu")}})
    )
    assert found == {"gpu": ["b", "c"]}
    assert more == []
    assert hub.api.objects == before
    verdicts = (await hub.target.place(federation()))["gpu"]
    assert all(FORESEEN in v.reasons for v in verdicts)
    (left,) = (v for v in verdicts if not v.chosen)
    assert (left.site, "gpu" in left.reasons[0]) == ("a", True)


async def test_the_first_group_has_a_cluster(hub: Hub) -> None:
    one = {"name": "one", "placement": {"numberOfClusters": 1}}
    document = federation(one, {"name": "rest"})
    found, _ = await hub.predict(document)
    assert found == {"one": ["a"], "rest": ["b", "c"]}
    sites = [v.site for known in (await hub.target.place(document)).values() for v in known]
    assert sorted(sites) == ["a", "b", "c"]  # each once


async def test_what_ocm_has_decided_is_its_own_word(hub: Hub) -> None:
    document = federation({"name": "all", "placement": {"numberOfClusters": 1}})
    await hub.decide(document, "c")
    assert (await hub.predict(document))[0] == {"all": ["c"]}
    hub.api.refusals[CLUSTERS] = (403, "Forbidden")
    assert await hub.predict(document) == ({"all": ["c"]}, [])  # nothing had to be asked


async def test_a_changed_placement_is_foreseen_from_where_it_is(hub: Hub) -> None:
    await hub.decide(federation({"name": "all", "placement": {"numberOfClusters": 1}}), "c")
    more = federation({"name": "all", "placement": {"numberOfClusters": 2}})
    found, _ = await hub.predict(more)
    assert found == {"all": ["a", "c"]}  # it prefers who it has


async def test_clusters_of_other_placements_come_last(hub: Hub) -> None:
    labels = {"labels": {PLACEMENT: "other"}}
    used = {"decisions": [{"clusterName": "a"}, {"clusterName": "b"}]}
    hub.api.put(kinds.DECISION, "other-1", "elsewhere", metadata=labels, status=used)
    await hub.seen()
    found, _ = await hub.predict(federation({"name": "all", "placement": {"numberOfClusters": 1}}))
    assert found == {"all": ["c"]}


async def test_who_may_not_look_at_clusters_is_told_so(hub: Hub) -> None:
    hub.api.refusals[CLUSTERS] = (403, "Forbidden")
    found, more = await hub.predict(federation(environments=[VISION]))
    assert found == {"all": []}
    assert [(step.action, step.unit) for step in more] == [
        ("wait", "group all"),
        ("wait", "environment vision"),
    ]
    assert "it said Forbidden" in more[0].reason


async def test_sites_that_run_are_not_given_up_because_nobody_can_look(hub: Hub) -> None:
    await hub.decide(federation({"name": "all", "placement": {"numberOfClusters": 1}}), "c")
    hub.api.refusals[CLUSTERS] = (403, "Forbidden")
    found, more = await hub.predict(federation())
    assert found == {"all": ["c"]}
    assert [step.unit for step in more] == ["group all"]


async def test_a_set_that_is_not_there_is_told(hub: Hub) -> None:
    _, more = await hub.predict(federation({"name": "all", "placement": {"clusterSets": ["eu"]}}))
    assert [step.reason for step in more] == [
        "nobody can tell which clusters: there is no cluster set eu"
    ]


async def test_environments_are_foreseen_on_the_sites_that_match(hub: Hub) -> None:
    narrow = {"name": "text", "app": "clinic/text", "predicates": labelled("gpu")}
    nowhere = {"name": "none", "app": "clinic/none", "predicates": labelled("no-such")}
    _, more = await hub.predict(federation(environments=[VISION, narrow, nowhere]))
    assert [(step.action, step.unit) for step in more] == [
        *(("create", f"{site}/environment vision") for site in "abc"),
        *(("create", f"{site}/environment text") for site in "bc"),
        ("wait", "environment none"),
    ]


async def test_environments_that_are_there_are_kept_changed_or_removed(hub: Hub) -> None:
    document = federation(environments=[VISION])
    await hub.decide(document, "a", "b")
    await Sending(hub.kube, Writer(hub.kube, hub.cache, "fl/lab"), hub.cache, NAMES).settle(
        document, "an-operators:image"
    )
    (key,) = (name for kind, _, name in hub.api.objects if kind is kinds.WORK_SET)
    on = {"decisions": [{"clusterName": "a"}, {"clusterName": "c"}]}
    labels = {"labels": {PLACEMENT: key}}
    hub.api.put(kinds.DECISION, f"{key}-1", "fl", metadata=labels, status=on)
    await hub.seen()

    async def told(*declared: Any) -> list[tuple[str, str]]:
        _, more = await hub.predict(federation(environments=declared))
        return [(str(step.action), step.unit) for step in more]

    assert await told(VISION) == [
        ("keep", "a/environment vision"),
        ("create", "b/environment vision"),
        ("remove", "c/environment vision"),
    ]
    hub.api.refusals[CLUSTERS] = (403, "Forbidden")
    assert await told(VISION) == [("wait", "environment vision")]  # none is given up
    hub.api.refusals.clear()
    changed = {**VISION, "resources": {"limits": {"cpu": "1"}}}
    assert (await told(changed))[0] == ("replace", "a/environment vision")
    assert await told() == [(("remove"), f"{site}/environment vision") for site in "ac"]


async def test_a_hub_that_cannot_send_environments_is_told(hub: Hub) -> None:
    hub.api.served.discard(kinds.WORK_SET)
    _, (step,) = await hub.predict(federation(environments=[VISION]))
    assert (step.action, step.unit) == ("wait", "environment vision")
    assert "ManifestWorkReplicaSet" in step.reason


async def test_who_may_not_look_at_environments_is_told_so(hub: Hub) -> None:
    path = "GET /apis/work.open-cluster-management.io/v1alpha1/namespaces/fl/"
    hub.api.refusals[path] = (403, "Forbidden")
    found, (step,) = await hub.predict(federation(environments=[VISION]))
    assert found == {"all": ["a", "b", "c"]}
    assert (step.action, "it said Forbidden" in step.reason) == ("wait", True)
