"""What installs the operator is closed down and may no more than it must."""

from __future__ import annotations

import json
from typing import Any

import pytest

from umbel.kube import kinds
from umbel.targets.ocm.install import OperatorSettings, operator_objects
from umbel.targets.ocm.watching import OWN_KINDS, watched

Object = dict[str, Any]


def objects(**settings: Any) -> list[Object]:
    return operator_objects(OperatorSettings(**settings))


def of(kind: str, found: list[Object]) -> list[Object]:
    return [obj for obj in found if obj["kind"] == kind]


def rights(found: list[Object], name: str) -> set[tuple[str, str, str]]:
    """Every group, resource and verb of the roles of one name."""
    return {
        (group, resource, verb)
        for role in found
        if role["kind"] in ("ClusterRole", "Role") and role["metadata"]["name"] == name
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_namespace_comes_first_and_takes_restricted_pods_only() -> None:
    first = objects()[0]
    assert (first["kind"], first["metadata"]["name"]) == ("Namespace", "umbel-system")
    assert first["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert of("Namespace", objects(create_namespace=False)) == []


def test_the_pod_is_restricted() -> None:
    [deployment] = of("Deployment", objects())
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["command"] == ["python", "-m", "umbel.operator"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "probes"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "probes"}


def test_nothing_is_allowed_by_a_star() -> None:
    for found in (objects(), objects(watch_namespaces=("a",), bind_cluster_sets=("b",))):
        for role in (*of("ClusterRole", found), *of("Role", found)):
            assert "*" not in json.dumps(role["rules"])


def test_the_operator_cannot_make_itself_mightier() -> None:
    everything = rights(objects(), "umbel-operator") | rights(
        objects(), "umbel-operator-federations"
    )
    groups = {group for group, _, _ in everything}
    assert "rbac.authorization.k8s.io" not in groups
    assert "certificates.k8s.io" not in groups
    verbs = {verb for _, _, verb in everything}
    assert not verbs & {"bind", "escalate", "impersonate", "deletecollection"}


def test_works_on_clusters_are_only_looked_at() -> None:
    works = {
        verb
        for _, resource, verb in rights(objects(), "umbel-operator")
        if resource == "manifestworks"
    }
    assert works == {"get", "list", "watch"}


def test_without_a_list_the_role_is_bound_everywhere() -> None:
    everywhere = {obj["metadata"]["name"] for obj in of("ClusterRoleBinding", objects())}
    assert everywhere == {"umbel-operator", "umbel-operator-federations"}


def test_with_a_list_secrets_are_within_reach_only_there() -> None:
    found = objects(watch_namespaces=("a", "b"))
    [everywhere] = of("ClusterRoleBinding", found)
    assert "secrets" not in {resource for _, resource, _ in rights_of(found, everywhere)}
    places = {
        obj["metadata"]["namespace"]
        for obj in of("RoleBinding", found)
        if obj["roleRef"]["name"] == "umbel-operator-federations"
    }
    assert places == {"a", "b"}
    [deployment] = of("Deployment", found)
    told = {e["name"]: e.get("value") for e in container_of(deployment)["env"]}
    assert told["UMBEL_WATCH_NAMESPACES"] == "a,b"


def container_of(deployment: Object) -> Object:
    container: Object = deployment["spec"]["template"]["spec"]["containers"][0]
    return container


def rights_of(found: list[Object], binding: Object) -> set[tuple[str, str, str]]:
    kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
    return rights([role for role in found if role["kind"] == kind], name)


@pytest.mark.parametrize(("sets", "allowed"), [((), False), (("eu", "us"), True)])
def test_cluster_sets_are_bound_only_when_named(sets: tuple[str, ...], allowed: bool) -> None:
    found = objects(bind_cluster_sets=sets)
    group = "cluster.open-cluster-management.io"
    bind = (group, "managedclustersets/bind", "create")
    make = (group, "managedclustersetbindings", "create")
    assert (bind in rights(found, "umbel-operator")) is allowed
    assert (make in rights(found, "umbel-operator-federations")) is allowed
    named = [r["resourceNames"] for o in of("ClusterRole", found) for r in o["rules"] if len(r) > 3]
    assert named == ([list(sets)] if sets else [])


@pytest.mark.parametrize(("replicas", "budgets"), [(1, 0), (2, 1)])
def test_several_operators_are_kept_apart_and_not_all_evicted(replicas: int, budgets: int) -> None:
    found = objects(replicas=replicas)
    assert len(of("PodDisruptionBudget", found)) == budgets
    [deployment] = of("Deployment", found)
    pod = deployment["spec"]["template"]["spec"]
    assert len(pod.get("topologySpreadConstraints", [])) == budgets


def test_people_get_federations_with_the_roles_that_they_have() -> None:
    roles = {
        obj["metadata"]["name"]: obj["metadata"]["labels"] for obj in of("ClusterRole", objects())
    }
    joins = "rbac.authorization.k8s.io/aggregate-to-"
    assert roles["umbel-federation-admin"][f"{joins}edit"] == "true"
    assert roles["umbel-federation-viewer"][f"{joins}view"] == "true"
    viewer = rights(objects(), "umbel-federation-viewer")
    assert {verb for _, _, verb in viewer} == {"get", "list", "watch"}
    names = {obj["metadata"]["name"] for obj in of("ClusterRole", objects(people=False))}
    assert names == {"umbel-operator", "umbel-operator-federations"}


def test_every_kind_that_the_operator_watches_or_writes_is_allowed() -> None:
    found = objects()
    may = rights(found, "umbel-operator") | rights(found, "umbel-operator-federations")
    seen = [kinds.FEDERATION, *(one.kind for one in watched())]
    routes = (kinds.INGRESS, kinds.TLS_ROUTE)
    taken_apart = [*(kind for kind in OWN_KINDS if kind not in (kinds.POD, kinds.CLAIM)), *routes]
    needs = {(kind, verb) for kind in seen for verb in ("list", "watch")}
    needs |= {(kind, verb) for kind in taken_apart for verb in ("create", "patch", "delete")}
    needs |= {(kinds.CLUSTER_SET, "get"), (kinds.BINDING, "get"), (kinds.EVENT, "create")}
    group = {kind: kind.api.rpartition("/")[0] for kind, _ in needs}
    missing = {
        f"{verb} {kind.plural}"
        for kind, verb in needs
        if (group[kind], kind.plural, verb) not in may
    }
    assert missing == set()
