"""Managed clusters as sites, as placement sees them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from umbel.kube.kinds import Object
from umbel.model.placement import Effect, LabelSelector, SiteSelector
from umbel.model.site import Site, TaintSeen
from umbel.placement import quantity
from umbel.placement.filters import Selector

SET_LABEL = "cluster.open-cluster-management.io/clusterset"
GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Published:
    """What others say about a cluster: "resource/score" to value, and until when, by resource."""

    values: dict[str, int] = field(default_factory=dict)
    until_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The clusters of a hub, and which of them are in which set; None: there is no such set."""

    sites: Mapping[str, Site]
    sets: Mapping[str, frozenset[str] | None] = field(default_factory=dict)

    def within(self, cluster_sets: Iterable[str]) -> list[Site]:
        """Give the clusters of some sets."""
        names = {name for one in cluster_sets for name in self.sets.get(one) or ()}
        return [self.sites[name] for name in sorted(names)]


def read_clusters(clusters: Iterable[Object], published: Iterable[Object]) -> dict[str, Site]:
    """Read clusters and what is published about them; those that leave are not among them."""
    scores = _scores(published)
    found = (one for one in clusters if not one["metadata"].get("deletionTimestamp"))
    named = ((one["metadata"]["name"], one) for one in found)
    return {name: as_site(one, scores.get(name, Published())) for name, one in named}


def as_site(cluster: Object, scores: Published) -> Site:
    """Read one cluster."""
    meta, status = cluster["metadata"], cluster.get("status", {})
    gives, has = status.get("allocatable") or {}, status.get("capacity") or {}
    claims = {c["name"]: c.get("value", "") for c in status.get("clusterClaims") or ()}
    return Site(
        name=meta["name"],
        target="ocm",
        cluster_set=(meta.get("labels") or {}).get(SET_LABEL, ""),
        labels=meta.get("labels") or {},
        claims=claims,
        taints=tuple(_taint(t) for t in cluster.get("spec", {}).get("taints") or ()),
        allocatable_cpu=_amount(gives, "cpu"),
        allocatable_memory=_amount(gives, "memory"),
        capacity_cpu=_amount(has, "cpu"),
        capacity_memory=_amount(has, "memory"),
        gpu=int(_amount(gives, GPU) or 0),
        scores=scores.values,
        scores_until_s=scores.until_s,
    )


def _taint(taint: Mapping[str, Any]) -> TaintSeen:
    effect = Effect(taint.get("effect") or Effect.NO_SELECT)
    return TaintSeen(taint["key"], taint.get("value", ""), effect, _time(taint.get("timeAdded")))


def _amount(resources: Mapping[str, str], name: str) -> float | None:
    return quantity.approximate(str(resources[name])) if name in resources else None


def _time(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _scores(published: Iterable[Object]) -> dict[str, Published]:
    """Sort scores by cluster: each is in its cluster's namespace."""
    found: dict[str, Published] = {}
    for one in published:
        name, cluster = one["metadata"]["name"], one["metadata"]["namespace"]
        said = one.get("status", {})
        mine = found.setdefault(cluster, Published())
        mine.values.update({f"{name}/{s['name']}": s["value"] for s in said.get("scores") or ()})
        if ends := said.get("validUntil"):
            mine.until_s[name] = _time(ends)
    return found


def members(cluster_set: Object | None, name: str, sites: Sequence[Site]) -> frozenset[str] | None:
    """Name the clusters of a set: those with its label, or those that its selector matches."""
    if cluster_set is None:
        return None
    how = cluster_set.get("spec", {}).get("clusterSelector") or {}
    if how.get("selectorType") != "LabelSelector":
        return frozenset(s.name for s in sites if s.labels.get(SET_LABEL) == name)
    wanted = LabelSelector.model_validate(how.get("labelSelector") or {})
    selector = Selector(SiteSelector(label_selector=wanted))
    return frozenset(s.name for s in sites if not selector.misses(s))
