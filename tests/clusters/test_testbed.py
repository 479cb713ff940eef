"""The test bed is the real thing: clusters join, placements decide, add-ons and works arrive."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from testbed.api import Api, Refused, condition
from testbed.bed import Bed
from testbed.fleet import of_size
from testbed.pods import images
from testbed.waiting import eventually

CLUSTER = "cluster.open-cluster-management.io/v1"
CLUSTER_BETA = "cluster.open-cluster-management.io/v1beta1"
ADDON = "addon.open-cluster-management.io/v1alpha1"
WORK = "work.open-cluster-management.io/v1"
WORK_ALPHA = "work.open-cluster-management.io/v1alpha1"
AVAILABLE = "ManagedClusterConditionAvailable"
BOTH = {"berlin", "boston"}
WAITS = {
    "name": "main",
    "image": images.PYTHON,
    "imagePullPolicy": "Never",
    "args": ["-c", "import signal; signal.pause()"],
}

Object = dict[str, Any]
Namespace = Callable[[str], str]

pytestmark = pytest.mark.timeout(600)  # a bed comes up within the first test


def deployment(name: str, **annotations: str) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [WAITS], "terminationGracePeriodSeconds": 1},
            },
        },
    }


def config_map(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"greeting": "hello"},
    }


def manifest_work(name: str, cluster: str, *manifests: Object) -> Object:
    return {
        "apiVersion": WORK,
        "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": cluster},
        "spec": {"workload": {"manifests": list(manifests)}},
    }


def placement(name: str, namespace: str, **spec: Any) -> Object:
    return {
        "apiVersion": CLUSTER_BETA,
        "kind": "Placement",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterSets": ["global"], **spec},
    }


def decided(hub: Api, name: str, namespace: str, count: int) -> set[str]:
    hub.wait(
        (CLUSTER_BETA, "Placement", name, namespace),
        lambda seen: seen.get("status", {}).get("numberOfSelectedClusters") == count,
    )
    label = f"cluster.open-cluster-management.io/placement={name}"
    decisions = hub.list(CLUSTER_BETA, "PlacementDecision", namespace, label)
    return {d["clusterName"] for one in decisions for d in one["status"].get("decisions", [])}


def test_two_clusters_join_and_become_available(bed: Bed, hub: Api) -> None:
    assert bed.available() == dict.fromkeys(BOTH, "True")
    berlin = hub.get(CLUSTER, "ManagedCluster", "berlin")
    assert berlin is not None
    assert berlin["metadata"]["labels"]["gpu"] == "true"
    claims = {c["name"]: c["value"] for c in berlin["status"]["clusterClaims"]}
    assert claims["region.example.org"] == "eu"
    assert berlin["status"]["version"]["kubernetes"] == "v1.36.4"


def test_a_cluster_says_what_its_node_has(hub: Api) -> None:
    hub.wait(
        (CLUSTER, "ManagedCluster", "berlin", ""),
        lambda seen: seen["status"].get("allocatable", {}).get("nvidia.com/gpu") == "2",
        90,
    )


def test_a_cluster_is_in_the_default_set_by_the_webhook(hub: Api) -> None:
    boston = hub.get(CLUSTER, "ManagedCluster", "boston")
    assert boston is not None
    label = "cluster.open-cluster-management.io/clusterset"
    assert boston["metadata"]["labels"][label] == "default"


def test_a_work_that_is_too_large_is_refused_by_the_webhook(hub: Api) -> None:
    large = config_map("large")
    large["data"]["greeting"] = "x" * 600 * 1024
    with pytest.raises(Refused, match="exceeds the"):
        hub.apply(manifest_work("large", "berlin", large))


def test_add_ons_are_served_in_both_versions(hub: Api) -> None:
    hub.apply(
        {
            "apiVersion": "addon.open-cluster-management.io/v1beta1",
            "kind": "ClusterManagementAddOn",
            "metadata": {"name": "converted"},
            "spec": {"addOnMeta": {"displayName": "Converted"}},
        }
    )
    seen = hub.get(ADDON, "ClusterManagementAddOn", "converted")
    assert seen is not None
    assert seen["spec"]["addOnMeta"]["displayName"] == "Converted"
    hub.delete(ADDON, "ClusterManagementAddOn", "converted")


def test_a_placement_decides(hub: Api, namespace: Namespace) -> None:
    place = namespace("deciding")
    hub.apply(placement("everywhere", place))
    by_label = {"labelSelector": {"matchLabels": {"gpu": "true"}}}
    hub.apply(placement("gpus", place, predicates=[{"requiredClusterSelector": by_label}]))
    expression = {"key": "region.example.org", "operator": "In", "values": ["us"]}
    by_claim = {"claimSelector": {"matchExpressions": [expression]}}
    hub.apply(placement("us", place, predicates=[{"requiredClusterSelector": by_claim}]))
    assert decided(hub, "everywhere", place, 2) == BOTH
    assert decided(hub, "gpus", place, 1) == {"berlin"}
    assert decided(hub, "us", place, 1) == {"boston"}


def test_an_add_on_lands_as_a_work_and_turns_available(
    hub: Api, spokes: Mapping[str, Api], namespace: Namespace
) -> None:
    place = namespace("adding")
    hub.apply(placement("everywhere", place))
    for one in _template_add_on("greeter", place):
        hub.apply(one)
    for name, spoke in spokes.items():
        hub.wait(
            (ADDON, "ManagedClusterAddOn", "greeter", name),
            lambda seen: condition(seen, "Available") == "True",
        )
        assert hub.get(WORK, "ManifestWork", "addon-greeter-deploy-0", name) is not None
        running = spoke.get("apps/v1", "Deployment", "greeter", "default")
        assert running is not None
        assert running["status"]["readyReplicas"] == 1
    hub.delete(ADDON, "ClusterManagementAddOn", "greeter")


def _template_add_on(name: str, namespace: str) -> list[Object]:
    group = "addon.open-cluster-management.io"
    template = {"group": group, "resource": "addontemplates", "defaultConfig": {"name": name}}
    chosen = {"name": "everywhere", "namespace": namespace}
    workload = {"manifests": [deployment(name)]}
    return [
        {
            "apiVersion": ADDON,
            "kind": "AddOnTemplate",
            "metadata": {"name": name},
            "spec": {"addonName": name, "agentSpec": {"workload": workload}},
        },
        {
            "apiVersion": ADDON,
            "kind": "ClusterManagementAddOn",
            "metadata": {"name": name},
            "spec": {
                "supportedConfigs": [template],
                "installStrategy": {"type": "Placements", "placements": [chosen]},
            },
        },
    ]


def test_a_set_of_works_applies_on_both(
    hub: Api, spokes: Mapping[str, Api], namespace: Namespace
) -> None:
    place = namespace("spreading")
    hub.apply(placement("everywhere", place))
    hub.apply(
        {
            "apiVersion": WORK_ALPHA,
            "kind": "ManifestWorkReplicaSet",
            "metadata": {"name": "spread", "namespace": place},
            "spec": {
                "manifestWorkTemplate": {"workload": {"manifests": [config_map("spread")]}},
                "placementRefs": [{"name": "everywhere"}],
            },
        }
    )
    for spoke in spokes.values():
        spoke.wait(("v1", "ConfigMap", "spread", "default"), lambda seen: seen["data"])
    hub.wait(
        (WORK_ALPHA, "ManifestWorkReplicaSet", "spread", place),
        lambda seen: seen.get("status", {}).get("summary", {}).get("applied") == 2,
    )


def test_a_spoke_that_is_cut_is_lost_until_it_is_healed(
    bed: Bed, hub: Api, spokes: Mapping[str, Api]
) -> None:
    berlin = (CLUSTER, "ManagedCluster", "berlin", "")
    arrived = ("v1", "ConfigMap", "cut", "default")
    path = hub.path(CLUSTER, "ManagedCluster", name="berlin")
    hub.patch(path, {"spec": {"leaseDurationSeconds": 2}})  # lost after five of them
    bed.cut("berlin")
    for name in BOTH:
        hub.apply(manifest_work("cut", name, config_map("cut")))
    spokes["boston"].wait(arrived, lambda seen: seen["data"])
    hub.wait(berlin, lambda seen: condition(seen, AVAILABLE) == "Unknown", 90)
    assert spokes["berlin"].get(*arrived) is None
    bed.heal("berlin")
    spokes["berlin"].wait(arrived, lambda seen: seen["data"], 90)
    hub.wait(berlin, lambda seen: condition(seen, AVAILABLE) == "True", 90)
    hub.patch(path, {"spec": {"leaseDurationSeconds": 60}})
    for name in BOTH:
        hub.delete(WORK, "ManifestWork", "cut", name)


def test_a_slow_road_is_still_a_road(bed: Bed, hub: Api, spokes: Mapping[str, Api]) -> None:
    bed.delay("boston", 50)
    hub.apply(manifest_work("slow", "boston", config_map("slow")))
    spokes["boston"].wait(("v1", "ConfigMap", "slow", "default"), lambda seen: seen["data"])
    bed.heal("boston")
    hub.delete(WORK, "ManifestWork", "slow", "boston")


def test_a_process_that_is_killed_can_be_started_again(bed: Bed, hub: Api) -> None:
    bed.kill("hub-placement")
    hub.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})
    bed.restart("hub-placement")
    hub.apply(placement("later", "later"))
    hub.wait(
        (CLUSTER_BETA, "Placement", "later", "later"),
        lambda seen: condition(seen, "PlacementSatisfied"),
    )
    hub.delete("v1", "Namespace", "later")


@pytest.fixture(scope="module")
def simulated(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:  # noqa: ARG001
    """A cluster whose node is simulated."""
    small = Bed.up(tmp_path_factory.mktemp("small") / "s", of_size(1), lambda _: None)
    with small.api("cluster1") as api:
        yield api
    small.down()


@pytest.mark.parametrize(
    ("behave", "reason"), [("fail", "CrashLoopBackOff"), ("never", "ContainerCreating")]
)
def test_a_simulated_pod_behaves_as_it_is_told(simulated: Api, behave: str, reason: str) -> None:
    simulated.apply(deployment(behave, **{"testbed.umbel.dev/behave": behave}))

    def seen() -> bool:
        pods = simulated.list("v1", "Pod", "default", f"app={behave}")
        states = [c["state"] for pod in pods for c in pod["status"].get("containerStatuses", [])]
        return any(state.get("waiting", {}).get("reason") == reason for state in states)

    eventually(f"a pod in {reason}", seen)
    simulated.delete("apps/v1", "Deployment", behave)


def test_down_leaves_nothing(programs: None, tmp_path: Path) -> None:  # noqa: ARG001
    before = _our_processes(tmp_path)
    beside = _left_by_ocm()
    state = tmp_path / "state"
    bed = Bed.up(state, of_size(1), lambda _: None)
    assert _our_processes(tmp_path) > before
    bed.down()
    assert _our_processes(tmp_path) == before == set()
    assert not state.exists()
    assert _left_by_ocm() <= beside


def test_what_a_crash_left_is_cleared_by_the_next(programs: None, tmp_path: Path) -> None:  # noqa: ARG001
    state = tmp_path / "state"
    crashed = Bed.up(state, of_size(1), lambda _: None)
    crashed.kill("etcd")
    left = _our_processes(tmp_path)
    again = Bed.up(state, of_size(1), lambda _: None)
    try:
        assert again.available() == {"cluster1": "True"}
        assert not left & _our_processes(tmp_path)
    finally:
        again.kill("etcd")
        again.down()  # after a crash too
    assert _our_processes(tmp_path) == set()


def _left_by_ocm() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("serving-cert*"))


def _our_processes(folder: Path) -> set[int]:
    """Give every process on the machine whose arguments name the folder."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            said = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in said:
            found.add(int(entry.name))
    return found
