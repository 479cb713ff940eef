"""Scheduling and scaling: OCM's placements decide, sites come and go without losing work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.pods.commands import CommandFailed
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import Meet
from tests.clusters.ocm.stories import (
    ADDON,
    CLUSTER,
    DRAIN,
    Declare,
    Federation,
    asleep,
    condition,
    everywhere,
    label,
    labelled,
    online,
    site_pod,
)

from umbel.targets.ocm.sites import NODE

pytestmark = pytest.mark.timeout(600)
BEGUN = "/tmp/known-begun"
GPUS = (
    '"nvidia.com/gpu" in managedCluster.status.allocatable'
    ' && quantity(managedCluster.status.allocatable["nvidia.com/gpu"])'
    '.isGreaterThan(quantity("1"))'
)


def requiring(**selector: Any) -> Object:
    return {"predicates": [{"requiredClusterSelector": selector}]}


def claiming(value: str) -> Object:
    wanted = {"key": "region.example.org", "operator": "In", "values": [value]}
    return requiring(claimSelector={"matchExpressions": [wanted]})


def scored(name: str) -> Object:
    coordinate = {"type": "AddOn", "addOn": {"resourceName": "about", "scoreName": name}}
    policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": coordinate, "weight": 1}]}
    return {"numberOfClusters": 1, "prioritizerPolicy": policy}


PLACEMENTS: Mapping[str, tuple[Object, set[str]]] = {
    "by-label": (labelled("gpu", "true"), {"berlin"}),
    "by-claim": (claiming("us"), {"boston"}),
    "by-cel": (
        requiring(celSelector={"celExpressions": ['managedCluster.metadata.name == "boston"']}),
        {"boston"},
    ),
    "by-gpus": (requiring(celSelector={"celExpressions": [GPUS]}), {"berlin"}),
    "by-score": (scored("data"), {"boston"}),
    "by-number": ({"numberOfClusters": 2}, {"berlin", "boston"}),
}


@pytest.fixture(scope="module")
def scores(hub: Api) -> Iterator[None]:
    """Somebody says that boston has more data."""
    for cluster, value in (("berlin", 10), ("boston", 90)):
        about: Object = {
            "apiVersion": f"{CLUSTER}/v1alpha1",
            "kind": "AddOnPlacementScore",
            "metadata": {"name": "about", "namespace": cluster},
        }
        hub.apply(about)
        hub.apply({**about, "status": {"scores": [{"name": "data", "value": value}]}}, status=True)
    yield
    for cluster in ("berlin", "boston"):
        hub.delete(f"{CLUSTER}/v1alpha1", "AddOnPlacementScore", "about", cluster)


@pytest.fixture(scope="module")
def choosy(declare: Declare, scores: None) -> Federation:
    """A federation with a group for each way of choosing."""
    del scores
    groups = [everywhere(name=name, placement=how) for name, (how, _) in PLACEMENTS.items()]
    return declare("ocm-choosy", "choosy", asleep(*groups))


@pytest.mark.parametrize("group", PLACEMENTS)
def test_a_group_uses_the_clusters_that_its_placement_chooses(
    hub: Api, choosy: Federation, group: str
) -> None:
    mark = f"{CLUSTER}/placement={choosy.names.placement(group)}"

    def chosen() -> set[str]:
        found = hub.list(f"{CLUSTER}/v1beta1", "PlacementDecision", choosy.namespace, mark)
        return {
            one["clusterName"]
            for decision in found
            for one in decision.get("status", {}).get("decisions") or ()
        }

    wanted = PLACEMENTS[group][1]
    eventually(f"{wanted} for {group}", lambda: chosen() == wanted, 60, lambda: str(chosen()))


def test_a_cluster_belongs_to_the_first_group_that_chose_it(choosy: Federation) -> None:
    seen = choosy.wait(lambda seen: seen.get("status", {}).get("sitesWanted") == 2)
    groups = {site["name"]: site["group"] for site in seen["status"]["sites"]}
    assert groups == {"berlin": "by-label", "boston": "by-claim"}
    for name, group in groups.items():
        key = (ADDON, "ManagedClusterAddOn", choosy.names.addon, name)
        found = choosy.hub.wait(key, bool)
        assert found["metadata"]["labels"]["umbel.dev/group"] == group


def test_a_cluster_that_starts_to_match_enrols_by_itself(hub: Api, fleet: Federation) -> None:
    fleet.until_ready("berlin")
    label(hub, "boston", duty="yes")
    seen = fleet.until_ready("berlin", "boston")
    assert seen["status"]["sitesText"] == "2/2"


def begun(pods: Bed, federation: Federation, run: str) -> bool:
    """Tell whether boston's ClientApp works on this run."""
    where = ("exec", "-n", federation.names.addon, f"deployment/{NODE}", "-c", "exec")
    try:
        return pods.kubectl("boston", *where, "--", "cat", BEGUN).strip() == run
    except CommandFailed:
        return False


def test_a_cluster_that_stops_matching_finishes_its_message_first(
    pods: Bed, hub: Api, fleet: Federation, meet: Meet, spokes: Mapping[str, Api]
) -> None:
    fleet.until_ready("berlin", "boston")
    person = meet(fleet)
    run = person.starts(num_server_rounds=4, min_nodes=1, seconds=4.0)
    eventually("boston's work", lambda: begun(pods, fleet, run), 60)
    label(hub, "boston", duty=None)
    ended = person.ends(run)
    assert ended.status == "completed"
    assert ended.rounds[0] == [0, 1]
    assert ended.rounds[-1] == [0]  # it was gone
    assert ended.rounds == sorted(ended.rounds, key=len, reverse=True)  # and no reply was missed
    assert len(ended.rounds) == 4
    fleet.until_ready("berlin")
    space = fleet.names.addon
    boston = spokes["boston"]
    eventually("the end of the site", lambda: boston.get("v1", "Namespace", space) is None, 150)


def test_a_bad_version_stops_after_its_first_batch_and_goes_back(
    hub: Api, fleet: Federation, spokes: Mapping[str, Api]
) -> None:
    label(hub, "boston", duty="yes")
    fleet.until_ready("berlin", "boston")
    pods_before = {name: site_pod(spoke, fleet.names) for name, spoke in spokes.items()}
    group = dict(fleet.seen()["spec"]["groups"][0])
    absent = [{"source": "localhost/umbel", "mirror": "localhost/nobody-built-it"}]
    rollout = {"maxConcurrent": 1, "deadlineSeconds": 15}
    fleet.change(groups=[{**group, "kubernetes": {**DRAIN, "mirrors": absent, "rollout": rollout}}])
    seen = fleet.wait(lambda seen: len(online(seen)) == 1)  # the first batch has it, and fails
    (spared,) = online(seen)
    said = fleet.until_said("RolledOut", "RolloutHalted")
    assert said["status"] == "False"
    assert "another version" in said["message"]
    back = fleet.wait(lambda seen: online(seen) == {"berlin", "boston"})
    assert condition(back, "Ready")["status"] == "False"  # nobody thinks that all is well
    for name, spoke in spokes.items():
        pod, former = site_pod(spoke, fleet.names), pods_before[name]
        assert pod is not None
        assert former is not None
        same = pod["metadata"]["uid"] == former["metadata"]["uid"]
        assert same == (name == spared)
    fleet.change(groups=[group])
    fleet.until_ready("berlin", "boston")
