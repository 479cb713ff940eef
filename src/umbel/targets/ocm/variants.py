"""Which clusters have executors alike: an environment is sent once for each set of values. Pure.

A ManifestWorkReplicaSet sends the same to all its clusters. Where clusters of an environment have
values of their own (a mirror, a proxy, nodes, a folder of data), those get one of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from umbel.model.federation import Group
from umbel.model.kubernetes import ClusterValues, PodResources, SitesOnKubernetes

_OWN = ("node_selector", "tolerations", "proxy", "mirrors")


@dataclass(frozen=True, slots=True)
class Values:
    """What of a cluster's values its executors use."""

    data: str  # the folder of the site's data; empty: none
    settings: SitesOnKubernetes  # the group's, with the cluster's own in their place


@dataclass(frozen=True, slots=True)
class Share:
    """Clusters of a group: only these, or all but these."""

    group: Group
    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    @property
    def expressions(self) -> tuple[str, ...]:
        """Say it in CEL, as placements have it."""
        found = []
        if self.only:
            found.append(f"managedCluster.metadata.name in {_listed(self.only)}")
        if self.but:
            found.append(f"!(managedCluster.metadata.name in {_listed(self.but)})")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Variant:
    """Clusters of an environment whose executors are alike."""

    key: str  # whose values they are: empty for those of the first group
    values: Values
    shares: tuple[Share, ...]


def variants(groups: Sequence[Group], homes: Mapping[str, str]) -> list[Variant]:
    """Sort the clusters by what their executors are told.

    `homes` says which group a cluster belongs to: where several choose it, it is one's only.
    """
    sorts = list[tuple[str, Values, list[Share]]]()
    for group in groups:
        for key, values, share in _of_group(group):
            same = next((shares for _, known, shares in sorts if known == values), None)
            if same is None:
                sorts.append((key if sorts else "", values, [share]))
            else:
                same.append(share)
    at_home = {group.name: group for group in groups}
    told = {c: _told(at_home[home], c) if home in at_home else None for c, home in homes.items()}
    found = []
    for key, values, shares in sorts:
        strangers = {cluster for cluster, other in told.items() if other != values}
        if left := tuple(one for share in shares if (one := _without(share, strangers))):
            found.append(Variant(key, values, left))
    return found


def _of_group(group: Group) -> list[tuple[str, Values, Share]]:
    """Give the group's values in general first, then those that only some clusters have."""
    general, special = values_of(group, ClusterValues()), list[tuple[Values, list[str]]]()
    for cluster in sorted((group.kubernetes or SitesOnKubernetes()).clusters):
        values = _told(group, cluster)
        same = next((clusters for known, clusters in special if known == values), None)
        if same is not None:
            same.append(cluster)
        elif values != general:
            special.append((values, [cluster]))
    apart = tuple(sorted(cluster for _, clusters in special for cluster in clusters))
    return [
        (group.name, general, Share(group, but=apart)),
        *((f"{group.name}/{c[0]}", values, Share(group, only=tuple(c))) for values, c in special),
    ]


def _told(group: Group, cluster: str) -> Values:
    own = (group.kubernetes or SitesOnKubernetes()).clusters
    return values_of(group, own.get(cluster, ClusterValues()))


def _without(share: Share, strangers: Collection[str]) -> Share | None:
    if not share.only:
        return replace(share, but=tuple(sorted({*share.but, *strangers})))
    left = tuple(cluster for cluster in share.only if cluster not in strangers)
    return replace(share, only=left) if left else None


def values_of(group: Group, own: ClusterValues) -> Values:
    """Put a cluster's own values in the place of its group's."""
    settings = group.kubernetes or SitesOnKubernetes()
    said = {name: value for name in _OWN if (value := getattr(own, name)) is not None}
    alike = {"clusters": {}, "resources": PodResources()}  # executors have resources of their own
    data = own.host_path or group.data.host_path or ""
    return Values(data, settings.model_copy(update={**said, **alike}))


def _listed(clusters: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{one}"' for one in clusters) + "]"
