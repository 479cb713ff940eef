"""A managed cluster becomes a site with everything that placements ask for."""

from __future__ import annotations

from typing import Any

from umbel.model.placement import Effect
from umbel.model.site import Site, TaintSeen
from umbel.targets.ocm.fleet import (
    SET_LABEL,
    Fleet,
    Published,
    as_site,
    members,
    read_clusters,
)

NOTHING = Published()
ADDED = "2026-01-02T03:04:05Z"


def cluster(name: str = "berlin", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def test_what_a_cluster_says_of_itself_is_read() -> None:
    said = {
        **cluster(gpu="true", **{SET_LABEL: "eu"}),
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSelectIfNew", "timeAdded": ADDED}]},
        "status": {
            "clusterClaims": [{"name": "region", "value": "north"}],
            "allocatable": {"cpu": "3900m", "memory": "8Gi", "nvidia.com/gpu": "2"},
            "capacity": {"cpu": "4", "memory": "16Gi"},
        },
    }  # fmt: skip
    found = as_site(said, NOTHING)
    assert (found.name, found.target, found.cluster_set) == ("berlin", "ocm", "eu")
    assert (found.labels["gpu"], found.claims) == ("true", {"region": "north"})
    assert found.taints == (TaintSeen("k", "v", Effect.NO_SELECT_IF_NEW, 1767323045.0),)
    assert (found.allocatable_cpu, found.capacity_cpu, found.gpu) == (3.9, 4.0, 2)
    assert (found.allocatable_memory, found.capacity_memory) == (8 * 2**30, 16 * 2**30)


def test_a_cluster_that_says_nothing_is_a_site_too() -> None:
    assert as_site({"metadata": {"name": "berlin"}}, NOTHING) == Site(
        "berlin", target="ocm", cluster_set="", gpu=0
    )


def test_scores_belong_to_the_cluster_in_whose_namespace_they_are() -> None:
    scores = {
        "metadata": {"name": "about", "namespace": "berlin"},
        "status": {"scores": [{"name": "data", "value": 7}], "validUntil": ADDED},
    }
    found = read_clusters([cluster(), cluster("boston")], [scores])
    assert found["berlin"].scores == {"about/data": 7}
    assert found["berlin"].scores_until_s == {"about": 1767323045.0}
    assert found["boston"].scores == {}


def test_a_cluster_that_leaves_is_not_among_them() -> None:
    leaving = cluster("boston")
    leaving["metadata"]["deletionTimestamp"] = ADDED
    assert list(read_clusters([cluster(), leaving], [])) == ["berlin"]


def test_sets_have_members_by_their_label_or_by_a_selector() -> None:
    sites = [
        as_site(cluster("a", **{SET_LABEL: "eu"}), NOTHING),
        as_site(cluster("b", gpu="yes"), NOTHING),
    ]
    chosen = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}

    def of(**how: Any) -> Any:
        return members({"spec": {"clusterSelector": how}}, "eu", sites)

    assert members({"spec": {}}, "eu", sites) == frozenset("a")
    assert of(selectorType="ExclusiveClusterSetLabel") == {"a"}
    assert of(selectorType="LabelSelector", labelSelector={}) == {"a", "b"}
    assert of(selectorType="LabelSelector", labelSelector=chosen) == {"b"}
    assert members(None, "eu", sites) is None


def test_clusters_of_several_sets_are_given_once() -> None:
    sites = {name: as_site(cluster(name), NOTHING) for name in "abc"}
    fleet = Fleet(sites, {"eu": frozenset("ab"), "us": frozenset("b"), "gone": None})
    assert [site.name for site in fleet.within(["us", "eu", "gone"])] == ["a", "b"]
