from __future__ import annotations

from typing import Any

from umbel.model.federation import Group
from umbel.targets.ocm import choosing
from umbel.targets.ocm.names import Names

NAMES = Names("fl", "lab")


def group(**placement: Any) -> Group:
    return Group.model_validate({"name": "eu", "on": "ocm", "placement": placement})


def decision(*clusters: str, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    made = [{"clusterName": name, "reason": more.get("reason", "")} for name in clusters]
    return {"metadata": {"labels": labels or {}}, "status": {"decisions": made}}


def test_a_placement_belongs_to_its_federation_and_group() -> None:
    made = choosing.placement(NAMES, group())
    assert made["metadata"]["name"] == "lab-eu"
    assert made["metadata"]["namespace"] == "fl"
    assert made["metadata"]["labels"]["umbel.dev/group"] == "eu"
    assert made["spec"]["clusterSets"] == ["global"]


def test_a_silent_agent_loses_nobody_its_supernode() -> None:
    keys = [t["key"] for t in choosing.placement(NAMES, group())["spec"]["tolerations"]]
    assert keys == [
        "cluster.open-cluster-management.io/unreachable",
        "cluster.open-cluster-management.io/unavailable",
    ]


def test_what_the_document_tolerates_is_tolerated_too() -> None:
    own = [{"key": "gpu", "operator": "Exists"}]
    spec = choosing.placement(NAMES, group(tolerations=own))["spec"]
    assert spec["tolerations"][0]["key"] == "gpu"
    assert len(spec["tolerations"]) == 3


def test_the_placement_is_written_as_ocm_reads_it() -> None:
    said = {
        "clusterSets": ["europe"],
        "numberOfClusters": 3,
        "predicates": [
            {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"gpu": "yes"}}}}
        ],
    }
    spec = choosing.placement(NAMES, group(**said))["spec"]
    assert spec["clusterSets"] == ["europe"]
    assert spec["numberOfClusters"] == 3
    assert spec["predicates"] == said["predicates"]


def test_sets_are_the_documents_or_the_one_with_everybody() -> None:
    assert choosing.cluster_sets(group()) == ("global",)
    assert choosing.cluster_sets(group(clusterSets=["a", "b"])) == ("a", "b")


def test_a_binding_is_named_after_its_set() -> None:
    made = choosing.binding(NAMES, "europe")
    assert made["metadata"] == {"name": "europe", "namespace": "fl"}
    assert made["spec"] == {"clusterSet": "europe"}


def test_verdicts_are_by_name_whatever_the_order_of_decisions() -> None:
    one, two = decision("c", "a"), decision("b", reason="fits")
    assert choosing.verdicts([one, two]) == choosing.verdicts([two, one])
    found = choosing.verdicts([one, two])
    assert [v.site for v in found] == ["a", "b", "c"]
    assert all(v.chosen for v in found)
    assert found[1].reasons == ("fits",)


def test_a_decision_group_comes_with_the_verdict() -> None:
    labels = {choosing.GROUP_NAME: "canary", choosing.GROUP_INDEX: "1"}
    (found,) = choosing.verdicts([decision("a", labels=labels)])
    assert (found.decision_group, found.decision_index) == ("canary", 1)


def test_a_decision_without_status_decides_nothing() -> None:
    assert choosing.verdicts([{"metadata": {}}, {"metadata": {}, "status": {}}]) == ()
