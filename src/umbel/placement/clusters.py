"""A site in the form that CEL expressions know: a ManagedCluster.

As with the real object, what is empty is absent: `managedCluster.metadata.labels` of a site
without labels fails, `has(managedCluster.metadata.labels)` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from umbel.model.site import Site, TaintSeen
from umbel.placement import quantity

Place = tuple[str, str]  # a section of the object and a key in it

_KUBERNETES = "kubeversion.open-cluster-management.io"


def _taint(taint: TaintSeen) -> dict[str, Any]:
    added = datetime.fromtimestamp(int(taint.since_s), UTC)
    value = {"value": taint.value} if taint.value else {}
    seen = {"key": taint.key, "effect": str(taint.effect), **value}
    return {**seen, "timeAdded": added.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _resources(cpu: float | None, memory: float | None, gpu: int) -> dict[str, str]:
    known = {"cpu": quantity.write(cpu)} if cpu is not None else {}
    if memory is not None:
        known["memory"] = quantity.write_bytes(memory)
    if gpu:
        known["nvidia.com/gpu"] = str(gpu)
    return known


_PLACES: Mapping[Place, Callable[[Site], Any]] = MappingProxyType(
    {
        ("metadata", "name"): lambda site: site.name,
        ("metadata", "labels"): lambda site: dict(site.labels) or None,
        ("spec", "hubAcceptsClient"): lambda _: True,
        ("spec", "leaseDurationSeconds"): lambda _: 60,
        ("spec", "taints"): lambda site: [_taint(taint) for taint in site.taints] or None,
        ("status", "allocatable"): lambda site: (
            _resources(site.allocatable_cpu, site.allocatable_memory, site.gpu) or None
        ),
        ("status", "capacity"): lambda site: (
            _resources(site.capacity_cpu, site.capacity_memory, site.gpu) or None
        ),
        ("status", "version"): lambda site: (
            {"kubernetes": site.claims[_KUBERNETES]} if site.claims.get(_KUBERNETES) else {}
        ),
        ("status", "clusterClaims"): lambda site: (
            [{"name": name, "value": value} for name, value in site.claims.items()] or None
        ),
    }
)
EVERYWHERE: frozenset[Place] = frozenset(_PLACES)


def managed_cluster(site: Site, places: Iterable[Place] = EVERYWHERE) -> dict[str, dict[str, Any]]:
    """Show a site as a ManagedCluster; only the named places are filled in."""
    shown: dict[str, dict[str, Any]] = {"metadata": {}, "spec": {}, "status": {}}
    for place in places:
        value = _PLACES[place](site)
        if value is not None:
            section, key = place
            shown[section][key] = value
    return shown
