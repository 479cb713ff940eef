"""OCM's own placement controller and `umbel.placement` decide the same.

Left open by OCM, and so left out here: Balance (it depends on which placement was decided first)
and the order within one decision group (OCM sorts by name there, we by score).
"""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from testbed.api import Api, condition
from testbed.bed import Bed
from testbed.fleet import of_size
from testbed.waiting import eventually

from umbel.model.placement import Effect, Placement
from umbel.model.site import Site, TaintSeen
from umbel.placement.clusters import managed_cluster
from umbel.placement.engine import place
from umbel.targets.ocm.fleet import members, read_clusters

CLUSTER = "cluster.open-cluster-management.io/v1"
CLUSTER_ALPHA = "cluster.open-cluster-management.io/v1alpha1"
CLUSTER_BETA = "cluster.open-cluster-management.io/v1beta1"
CLUSTER_BETA_2 = "cluster.open-cluster-management.io/v1beta2"
LABEL = "cluster.open-cluster-management.io"
SET = "contract"
SITES = 50
PLACEMENTS = 200
KEYS = ("gpu", "zone")
VALUES = ("a", "b", "c")
SINCE_S = 1_700_000_000.0
GIB = 1024.0**3

Object = dict[str, Any]
Groups = list[tuple[str, frozenset[str]]]

pytestmark = pytest.mark.timeout(600)
dice = random.Random(11)  # noqa: S311  # nothing secret


def some_facts() -> dict[str, str]:
    return {key: dice.choice(VALUES) for key in KEYS if dice.random() < 0.7}


def some_site(number: int) -> Site:
    tainted = dice.random() < 0.3
    taint = TaintSeen(dice.choice("tu"), "v", dice.choice(list(Effect)), SINCE_S)
    cpu, memory = dice.randint(1, 8), dice.randint(1, 8)
    return Site(
        f"site{number:02d}",
        cluster_set=SET,
        labels=some_facts(),
        claims={f"{key}.example.org": value for key, value in some_facts().items()},
        taints=(taint,) if tainted else (),
        allocatable_cpu=float(cpu),
        capacity_cpu=8.0,
        allocatable_memory=memory * GIB,
        capacity_memory=8 * GIB,
        scores={"about/data": dice.randint(-100, 100)} if dice.random() < 0.8 else {},
    )


def some_requirement(suffix: str) -> Object:
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = dice.sample(VALUES, dice.randint(1, 2)) if operator.endswith("In") else []
    line: Object = {"key": dice.choice(KEYS) + suffix, "operator": operator}
    return {**line, "values": values} if values else line


def some_cel() -> str:
    return dice.choice(
        (
            'managedCluster.metadata.labels["gpu"] == "a"',
            'has(managedCluster.metadata.labels) && "zone" in managedCluster.metadata.labels',
            'managedCluster.status.clusterClaims.exists(c, c.name == "gpu.example.org")',
            'managedCluster.scores("about").exists(s, s.name == "data" && s.value > 0)',
            'managedCluster.metadata.name.endsWith("7")',
        )
    )


def some_selector(*, cel: bool) -> Object:
    selector: Object = {}
    if dice.random() < 0.7:
        selector["labelSelector"] = {"matchExpressions": [some_requirement("")]}
    if dice.random() < 0.4:
        selector["claimSelector"] = {"matchExpressions": [some_requirement(".example.org")]}
    if cel and dice.random() < 0.3:
        selector["celSelector"] = {"celExpressions": [some_cel()]}
    return selector


def some_policy() -> Object:
    coordinates: list[Object] = [
        {"type": "BuiltIn", "builtIn": name}
        for name in ("Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory")
    ]
    about = {"resourceName": "about", "scoreName": "data"}
    coordinates.append({"type": "AddOn", "addOn": about})
    chosen = dice.sample(coordinates, dice.randint(1, 3))
    weighted: list[Object] = [
        {"scoreCoordinate": one, "weight": dice.randint(1, 10)} for one in chosen
    ]
    for one in weighted:
        if one["scoreCoordinate"].get("builtIn") != "Steady" and dice.random() < 0.3:
            one["weight"] = -one["weight"]  # a Steady below zero would never come to rest
    return {"mode": "Exact", "configurations": weighted}


def some_groups() -> Object:
    groups = [
        {"groupName": name, "groupClusterSelector": some_selector(cel=False)}
        for name in ("first", "second")[: dice.randint(0, 2)]
    ]
    size = dice.choice((1, 3, 7, "30%", "100%"))
    return {"groupStrategy": {"decisionGroups": groups, "clustersPerDecisionGroup": size}}


def some_spec() -> Object:
    spec: Object = {"clusterSets": [SET], "prioritizerPolicy": some_policy()}
    if dice.random() < 0.8:
        predicates = [{"requiredClusterSelector": some_selector(cel=True)} for _ in range(2)]
        spec["predicates"] = predicates[: dice.randint(1, 2)]
    if dice.random() < 0.7:
        spec["numberOfClusters"] = dice.randint(1, 25)
    if dice.random() < 0.5:
        spec["tolerations"] = [{"key": dice.choice("tu"), "operator": "Exists"}]
    if dice.random() < 0.4:
        spec["decisionStrategy"] = some_groups()
    return spec


@pytest.fixture(scope="module")
def hub(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:  # noqa: ARG001
    """A hub of their own: fifty clusters take minutes to go."""
    bed = Bed.up(tmp_path_factory.mktemp("contract") / "s", of_size(1), lambda _: None)
    with bed.api() as api:
        yield api
    bed.down()


@pytest.fixture(scope="module")
def sites(hub: Api) -> list[Site]:
    """Fifty clusters that exist on the hub only, in a set of their own."""
    made = [some_site(number) for number in range(SITES)]
    hub.apply(
        {"apiVersion": CLUSTER_BETA_2, "kind": "ManagedClusterSet", "metadata": {"name": SET}}
    )
    for site in made:
        _introduce(hub, site)
    eventually("sites without OCM's own taints", lambda: _at_rest(hub, made), 180)
    return made


def _introduce(hub: Api, site: Site) -> None:
    shown = managed_cluster(site)
    labels = {**site.labels, f"{LABEL}/clusterset": SET}
    head: Object = {"apiVersion": CLUSTER, "kind": "ManagedCluster"}
    meta = {"name": site.name, "labels": labels}
    spec = {**shown["spec"], "leaseDurationSeconds": 3600}
    hub.apply({**head, "metadata": meta, "spec": spec})
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    well = {"status": "True", "reason": "Told", "message": "", "lastTransitionTime": now}
    conditions = [
        {"type": kind, **well}
        for kind in ("ManagedClusterJoined", "ManagedClusterConditionAvailable")
    ]
    status = {**shown["status"], "conditions": conditions}
    status.setdefault("version", {})
    hub.apply({**head, "metadata": {"name": site.name}, "status": status}, status=True)
    if site.scores:
        _score(hub, site)


def _score(hub: Api, site: Site) -> None:
    hub.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.name}})
    head: Object = {
        "apiVersion": CLUSTER_ALPHA,
        "kind": "AddOnPlacementScore",
        "metadata": {"name": "about", "namespace": site.name},
    }
    hub.apply(head)
    scores = [{"name": "data", "value": site.scores["about/data"]}]
    hub.apply({**head, "status": {"scores": scores}}, status=True)


def _at_rest(hub: Api, sites: list[Site]) -> bool:
    seen = {c["metadata"]["name"]: c for c in hub.list(CLUSTER, "ManagedCluster")}
    return all(
        len(seen[site.name]["spec"].get("taints", [])) == len(site.taints)
        and condition(seen[site.name], "HubAcceptedManagedCluster") == "True"
        for site in sites
    )


def _ours(spec: Object, sites: list[Site]) -> Groups:
    verdicts = place(Placement.model_validate(spec), sites, now_s=time.time())
    groups: dict[tuple[int, str], set[str]] = {}
    for verdict in verdicts:
        if verdict.chosen:
            key = (verdict.decision_index, verdict.decision_group)
            groups.setdefault(key, set()).add(verdict.site)
    return [(name, frozenset(groups[index, name])) for index, name in sorted(groups)]


def _theirs(decisions: list[Object], name: str) -> Groups:
    groups: dict[tuple[int, str], set[str]] = {}
    for decision in decisions:
        labels = decision["metadata"]["labels"]
        if labels[f"{LABEL}/placement"] == name:
            index = int(labels[f"{LABEL}/decision-group-index"])
            chosen = {d["clusterName"] for d in decision.get("status", {}).get("decisions", [])}
            key = (index, labels.get(f"{LABEL}/decision-group-name", ""))
            groups.setdefault(key, set()).update(chosen)
    return [(key[1], frozenset(groups[key])) for key in sorted(groups) if groups[key]]


def test_what_is_read_from_a_hub_is_what_was_told(hub: Api, sites: list[Site]) -> None:
    clusters = list(hub.list(CLUSTER, "ManagedCluster"))
    read = read_clusters(clusters, hub.list(CLUSTER_ALPHA, "AddOnPlacementScore"))
    names = {c["metadata"]["name"]: c for c in hub.list(CLUSTER_BETA_2, "ManagedClusterSet")}
    sets = {name: members(one, name, [*read.values()]) for name, one in names.items()}
    assert sets[SET] == frozenset(site.name for site in sites)
    assert sets["global"] == frozenset(read)
    for site in sites:
        told = replace(site, target="ocm", labels={**site.labels, f"{LABEL}/clusterset": SET})
        found = read[site.name]
        labels = {k: v for k, v in found.labels.items() if not k.startswith("feature.")}
        since = tuple(replace(taint, since_s=SINCE_S) for taint in found.taints)
        assert replace(found, labels=labels, taints=since) == told


def test_both_decide_the_same(hub: Api, sites: list[Site]) -> None:
    hub.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SET}})
    binding: Object = {"apiVersion": CLUSTER_BETA_2, "kind": "ManagedClusterSetBinding"}
    meta = {"name": SET, "namespace": SET}
    hub.apply({**binding, "metadata": meta, "spec": {"clusterSet": SET}})
    specs = {f"p{number:03d}": some_spec() for number in range(PLACEMENTS)}
    for name, spec in specs.items():
        hub.apply(
            {
                "apiVersion": CLUSTER_BETA,
                "kind": "Placement",
                "metadata": {"name": name, "namespace": SET},
                "spec": spec,
            }
        )

    def all_decided() -> bool:
        seen = list(hub.list(CLUSTER_BETA, "Placement", SET))
        return len(seen) == PLACEMENTS and all(condition(p, "PlacementSatisfied") for p in seen)

    eventually("a decision for every placement", all_decided, 180)
    decisions = list(hub.list(CLUSTER_BETA, "PlacementDecision", SET))
    differ = {
        name: {"spec": spec, "ours": ours, "theirs": theirs}
        for name, spec in specs.items()
        if (ours := _ours(spec, sites)) != (theirs := _theirs(decisions, name))
    }
    assert differ == {}
    assert sum(bool(_theirs(decisions, name)) for name in specs) > PLACEMENTS // 2
