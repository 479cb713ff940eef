"""GPUs: a cluster is chosen by those that it really has, and Kubernetes gives them to the pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from testbed.api import Api, Object
from tests.clusters.ocm.stories import (
    CLUSTER,
    NOWHERE,
    Declare,
    Federation,
    condition,
    everywhere,
    recipe,
    site_pod,
    spec,
)

from umbel.targets.ocm.sites import NODE

pytestmark = pytest.mark.timeout(600)
GPU = "nvidia.com/gpu"


def of_gpus(**more: str) -> Object:
    """Give a federation whose hub sleeps: only what its sites' pods are given is looked at."""
    said = recipe("By GPU that is really there")
    limits = {**said["kubernetes"]["resources"]["limits"], **more}
    group = {"placement": said["placement"], "kubernetes": {"resources": {"limits": limits}}}
    return spec(everywhere(**group), kubernetes={"nodeSelector": NOWHERE})


@pytest.fixture(scope="module")
def scans(lasting: Declare) -> Iterator[Federation]:
    """Sites wherever GPUs are, each with one of them: as the guide writes it."""
    federation = lasting("ocm-scans", "scans", of_gpus())
    yield federation
    federation.delete()  # while other stories are told


def test_a_cluster_tells_the_hub_what_its_nodes_have(hub: Api, spokes: Mapping[str, Api]) -> None:
    node = spokes["berlin"].get("v1", "Node", "berlin-1")
    assert node is not None
    assert node["status"]["allocatable"][GPU] == "2"
    berlin, boston = (hub.get(f"{CLUSTER}/v1", "ManagedCluster", c) for c in ("berlin", "boston"))
    assert berlin is not None
    assert boston is not None
    assert berlin["status"]["allocatable"][GPU] == berlin["status"]["capacity"][GPU] == "2"
    assert GPU not in boston["status"]["allocatable"]


def test_a_pod_has_the_gpu_that_its_cluster_was_chosen_for(
    scans: Federation, spokes: Mapping[str, Api]
) -> None:
    seen = scans.wait(lambda seen: seen.get("status", {}).get("sites"))
    assert [site["name"] for site in seen["status"]["sites"]] == ["berlin"]
    berlin = spokes["berlin"]
    space = scans.names.addon
    deployed = ("apps/v1", "Deployment", NODE, space)
    berlin.wait(deployed, lambda seen: seen["status"].get("replicas"))
    pod = site_pod(berlin, scans.names)
    assert pod is not None
    key = ("v1", "Pod", pod["metadata"]["name"], space)
    runs = berlin.wait(key, lambda seen: seen["status"].get("phase") == "Running")
    assert runs["spec"]["nodeName"] == "berlin-1"  # berlin-2 has none
    given = {
        c["name"]: c["resources"].get("limits", {}).get(GPU) for c in runs["spec"]["containers"]
    }
    assert given.pop("exec") == "1"
    assert set(given.values()) == {None}  # the SuperNode itself needs none
    assert spokes["boston"].get("v1", "Namespace", space) is None


def _states(seen: Object) -> list[tuple[str, str]]:
    sites = seen.get("status", {}).get("sites") or ()
    return [(site["name"], site["state"]) for site in sites]


def test_more_gpus_than_a_node_has_are_said_to_be_missing(
    lasting: Declare, spokes: Mapping[str, Api]
) -> None:
    greedy = lasting("ocm-scans", "greedy", of_gpus(**{GPU: "3"}))  # there are two
    berlin = spokes["berlin"]
    berlin.wait(("apps/v1", "Deployment", NODE, greedy.names.addon), bool)
    pods = lambda _: site_pod(berlin, greedy.names)  # noqa: E731
    berlin.wait(("v1", "Namespace", greedy.names.addon, ""), pods)
    pod = site_pod(berlin, greedy.names)
    assert pod is not None
    key = ("v1", "Pod", pod["metadata"]["name"], greedy.names.addon)
    waits = berlin.wait(key, lambda seen: condition(seen, "PodScheduled").get("status") == "False")
    assert f"Insufficient {GPU}" in condition(waits, "PodScheduled")["message"]
    starting = [("berlin", "starting")]
    greedy.wait(lambda seen: _states(seen) == starting)
    greedy.delete()
