"""Numbers, regions and taints: one federation grows and shrinks, and says when it wants more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from testbed.api import Api, Object
from testbed.waiting import eventually
from tests.clusters.ocm.stories import (
    CLUSTER,
    Declare,
    Federation,
    asleep,
    condition,
    everywhere,
    label,
    online,
    recipe,
    site_pod,
)

pytestmark = pytest.mark.timeout(600)
SPACE = "ocm-crew"
REGIONS = {"berlin": "eu", "boston": "us"}
TAINT = {"key": "rebuilding", "effect": "NoSelect"}
DECIDED = f"{CLUSTER}/placement"  # label on decisions


@pytest.fixture(scope="module", autouse=True)
def untainted(hub: Api) -> Iterator[None]:
    """Whatever happens here, boston can be chosen afterwards."""
    yield
    taint(hub, "boston")


@pytest.fixture
def regions(hub: Api, lasting: Declare) -> Iterator[Federation]:
    """A group for each region, as the guide writes it: two clusters of each. Its pods sleep."""
    for cluster, region in REGIONS.items():
        label(hub, cluster, region=region)
    federation = lasting(SPACE, "regions", asleep(*recipe("Even over regions")["groups"]))
    yield federation
    federation.delete()
    for cluster in REGIONS:
        label(hub, cluster, region=None)


def taint(hub: Api, cluster: str, *taints: Object) -> None:
    """Let a cluster have exactly these taints."""
    path = hub.path(f"{CLUSTER}/v1", "ManagedCluster", "", cluster)
    hub.patch(path, {"spec": {"taints": list(taints)}})


def asks(federation: Federation, **placement: Any) -> None:
    """Have one group, with this placement."""
    federation.change(groups=[everywhere(placement=placement)])


def settled(federation: Federation, *sites: str) -> Object:
    """Wait until exactly these sites run what they should."""
    federation.wait(lambda seen: not is_rolling(seen) and online(seen) == set(sites))
    return federation.until_ready(*sites)


def is_rolling(seen: Object) -> bool:
    known = seen["status"].get("observedGeneration") == seen["metadata"]["generation"]
    return not known or condition(seen, "RolledOut").get("reason") == "RollingOut"


def partitions(seen: Object) -> dict[str, int]:
    return {site["name"]: site["partitionId"] for site in seen["status"]["sites"]}


def test_every_region_has_its_group(crew: Federation, regions: Federation) -> None:
    del crew  # it comes up meanwhile
    known = lambda seen: len(seen.get("status", {}).get("sites") or ()) == 2  # noqa: E731
    seen = regions.wait(known)
    assert {site["name"]: site["group"] for site in seen["status"]["sites"]} == REGIONS
    said = regions.until_said("ClustersChosen", "FewerThanAsked")
    assert "group eu: 1 of 2 clusters" in said["message"]


def test_fewer_clusters_than_asked_are_said_and_do(crew: Federation) -> None:
    seen = crew.until_ready("berlin", "boston")
    said = condition(seen, "ClustersChosen")
    assert (said["status"], said["reason"]) == ("True", "FewerThanAsked")
    assert "group all: 2 of 3 clusters" in said["message"]
    assert "kubectl get managedclusters --show-labels" in said["message"]
    assert condition(seen, "Ready")["status"] == "True"


def test_numbers_go_down_and_up_and_every_site_has_its_partition_again(
    crew: Federation, spokes: Mapping[str, Api]
) -> None:
    asks(crew, numberOfClusters=2)
    both = settled(crew, "berlin", "boston")
    assert not condition(both, "ClustersChosen")
    asks(crew, numberOfClusters=1)
    one = crew.wait(lambda seen: len(online(seen)) == 1)
    (stays,) = online(one)
    (left,) = set(REGIONS) - {stays}
    assert crew.until_ready(stays)["status"]["sitesText"] == "1/1"
    gone = lambda: spokes[left].get("v1", "Namespace", crew.names.addon) is None  # noqa: E731
    eventually(f"the end of the site in {left}", gone, 150)
    asks(crew, numberOfClusters=2)
    again = settled(crew, "berlin", "boston")
    assert partitions(again) == partitions(both)


def test_a_taint_that_is_tolerated_takes_nobody_away(
    hub: Api, crew: Federation, spokes: Mapping[str, Api]
) -> None:
    tolerations = recipe("Not this one, for now: taints")["placement"]["tolerations"]
    asks(crew, numberOfClusters=2, tolerations=tolerations)
    settled(crew, "berlin", "boston")
    before = site_pod(spokes["boston"], crew.names)
    witness(hub)
    taint(hub, "boston", TAINT)
    eventually("OCM's look at the taint", lambda: chosen(hub, "witness") == {"berlin"})
    assert chosen(hub, crew.names.placement("all")) == {"berlin", "boston"}
    after = site_pod(spokes["boston"], crew.names)
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert crew.until_ready("berlin", "boston")["status"]["sitesText"] == "2/2"


def witness(hub: Api) -> None:
    """Have a placement that tolerates nothing: it shows what OCM knows of taints."""
    hub.apply(
        {
            "apiVersion": f"{CLUSTER}/v1beta1",
            "kind": "Placement",
            "metadata": {"name": "witness", "namespace": SPACE},
            "spec": {"clusterSets": ["global"]},
        }
    )
    eventually("OCM's decision", lambda: chosen(hub, "witness") == set(REGIONS))


def chosen(hub: Api, placement: str) -> set[str]:
    lists = hub.list(f"{CLUSTER}/v1beta1", "PlacementDecision", SPACE, f"{DECIDED}={placement}")
    found = [one for decision in lists for one in decision.get("status", {}).get("decisions") or ()]
    return {one["clusterName"] for one in found}


def test_a_taint_that_is_not_tolerated_any_more_takes_the_site_away(
    hub: Api, crew: Federation
) -> None:
    asks(crew, numberOfClusters=2)
    seen = crew.until_ready("berlin")
    said = condition(seen, "ClustersChosen")
    assert (said["status"], said["reason"]) == ("True", "FewerThanAsked")
    assert "1 of 2 clusters" in said["message"]
    assert "taint" in said["message"]
    taint(hub, "boston")
