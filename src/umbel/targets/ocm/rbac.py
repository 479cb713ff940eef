"""What the operator may do on a hub, and what people may: no verb more than is used."""

from __future__ import annotations

from typing import Any, TypeAlias

Rule: TypeAlias = dict[str, Any]

_LOOK = ("get", "list", "watch")
_KEEP = (*_LOOK, "create", "patch", "delete")
_CLUSTER = "cluster.open-cluster-management.io"
_ADDON = "addon.open-cluster-management.io"
_WORK = "work.open-cluster-management.io"


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> Rule:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def in_federations(*, bind: bool = False) -> list[Rule]:
    """What is done in namespaces that hold federations."""
    return [
        _rule("umbel.dev", ("federations",), (*_LOOK, "patch")),
        _rule("umbel.dev", ("federations/status",), ("get", "patch")),
        _rule("umbel.dev", ("federations/finalizers",), ("update",)),
        _rule("", ("configmaps", "secrets", "services", "serviceaccounts"), _KEEP),
        _rule("", ("pods",), _KEEP),
        _rule("", ("persistentvolumeclaims",), (*_LOOK, "patch", "delete")),
        _rule("", ("events",), ("create", "patch")),
        _rule("events.k8s.io", ("events",), ("create", "patch")),
        _rule("apps", ("statefulsets",), _KEEP),
        _rule("networking.k8s.io", ("networkpolicies", "ingresses"), _KEEP),
        _rule("gateway.networking.k8s.io", ("tlsroutes",), _KEEP),
        _rule(_CLUSTER, ("placements",), _KEEP),
        _rule(_CLUSTER, ("managedclustersetbindings",), (*_LOOK, "create") if bind else _LOOK),
        _rule(_CLUSTER, ("placementdecisions",), _LOOK),
        _rule(_WORK, ("manifestworkreplicasets",), _KEEP),
    ]


def on_the_hub(bound_sets: tuple[str, ...] = ()) -> list[Rule]:
    """What is done in every cluster's namespace and outside of namespaces.

    Who may bind a set to a namespace lets everybody in there use its clusters: the operator may
    only for the sets that are named.
    """
    addons = (
        *("clustermanagementaddons", "addontemplates"),
        *("addondeploymentconfigs", "managedclusteraddons"),
    )
    return [
        _rule(_CLUSTER, ("managedclusters", "managedclustersets", "addonplacementscores"), _LOOK),
        _rule(_ADDON, addons, _KEEP),
        _rule(_WORK, ("manifestworks",), _LOOK),
        *([binding() | {"resourceNames": list(bound_sets)}] if bound_sets else []),
    ]


def binding() -> Rule:
    """What it takes to bind cluster sets."""
    return _rule(_CLUSTER, ("managedclustersets/bind",), ("create",))


def at_home() -> list[Rule]:
    """What is done in the operator's own namespace."""
    return [
        _rule("", ("secrets", "configmaps"), _KEEP),
        _rule("coordination.k8s.io", ("leases",), ("get", "create", "update", "patch")),
        _rule("", ("events",), ("create", "patch")),
        _rule("events.k8s.io", ("events",), ("create", "patch")),
    ]


def of_admins() -> list[Rule]:
    """What whoever declares federations may do."""
    verbs = (*_LOOK, "create", "update", "patch", "delete", "deletecollection")
    return [_rule("umbel.dev", ("federations",), verbs), *_status()]


def of_viewers() -> list[Rule]:
    """What whoever looks at federations may do."""
    return [_rule("umbel.dev", ("federations",), _LOOK), *_status()]


def _status() -> list[Rule]:
    return [_rule("umbel.dev", ("federations/status",), ("get",))]
