"""Which clusters a group uses: OCM's own Placement decides. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from umbel.model.federation import Group
from umbel.model.site import Verdict
from umbel.targets.ocm.names import SITE_GROUP, Names
from umbel.targets.ocm.pods import Object

API = "cluster.open-cluster-management.io/v1beta1"
SETS_API = "cluster.open-cluster-management.io/v1beta2"
EVERY_SET = "global"  # OCM puts every cluster into it
PLACEMENT = "cluster.open-cluster-management.io/placement"  # label on decisions
GROUP_NAME = "cluster.open-cluster-management.io/decision-group-name"
GROUP_INDEX = "cluster.open-cluster-management.io/decision-group-index"
# A cluster whose agent is silent goes on training: its SuperNode has a way of its own to the hub.
SILENT = ("unreachable", "unavailable")


def cluster_sets(group: Group) -> tuple[str, ...]:
    """Name the sets that a group chooses from."""
    return group.placement.cluster_sets or (EVERY_SET,)


def tolerated(group: Group) -> list[Object]:
    """Write the taints that a group's clusters may have."""
    said = group.placement.model_dump(mode="json", exclude_defaults=True).get("tolerations", [])
    return [
        *map(_without_empty, said),
        *(
            {"key": f"cluster.open-cluster-management.io/{key}", "operator": "Exists"}
            for key in SILENT
        ),
    ]


def placement(names: Names, group: Group) -> Object:
    """Write a group's placement as OCM's."""
    spec = _without_empty(group.placement.model_dump(mode="json", exclude_defaults=True))
    assert isinstance(spec, dict)  # noqa: S101  # a model gives an object
    spec["clusterSets"] = list(cluster_sets(group))
    spec["tolerations"] = tolerated(group)
    meta = names.metadata(
        names.placement(group.name),
        "site",
        namespace=names.namespace,
        labels={SITE_GROUP: group.name},
    )
    return {"apiVersion": API, "kind": "Placement", "metadata": meta, "spec": spec}


def binding(names: Names, cluster_set: str) -> Object:
    """Let the federation's namespace use a set of clusters."""
    return {
        "apiVersion": SETS_API,
        "kind": "ManagedClusterSetBinding",
        "metadata": {"name": cluster_set, "namespace": names.namespace},
        "spec": {"clusterSet": cluster_set},
    }


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_empty(v) for k, v in value.items() if v not in (None, {}, [], "")}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value


def verdicts(decisions: Iterable[Object]) -> tuple[Verdict, ...]:
    """Read what OCM decided, by name: the order inside a decision is nobody's promise."""
    found: dict[str, Verdict] = {}
    for decision in decisions:
        labels = decision["metadata"].get("labels", {})
        group, index = labels.get(GROUP_NAME, ""), int(labels.get(GROUP_INDEX) or 0)
        for one in decision.get("status", {}).get("decisions") or ():
            name = one["clusterName"]
            why = one.get("reason") or "chosen by OCM's placement"
            found[name] = Verdict(name, True, (why,), decision_group=group, decision_index=index)
    return tuple(found[name] for name in sorted(found))
