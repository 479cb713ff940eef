"""Cuts decisions into groups, for rollouts: named ones by selector, each of a limited size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from umbel.model.placement import GroupStrategy
from umbel.model.site import Site
from umbel.placement.filters import Selector


@dataclass(frozen=True, slots=True)
class Group:
    """Sites that are rolled out together; the order of groups is the order of the rollout."""

    name: str
    sites: tuple[Site, ...]


def divide(strategy: GroupStrategy, chosen: Sequence[Site]) -> tuple[Group, ...]:
    """Give every chosen site its group: the first named one that selects it, else a nameless one."""
    size = _size(strategy.clusters_per_decision_group, len(chosen))
    left = sorted(chosen, key=lambda site: site.name)
    groups: list[Group] = []
    for declared in strategy.decision_groups:
        selector = Selector(declared.group_cluster_selector)
        inside = [site for site in left if not selector.misses(site)]
        names = {site.name for site in inside}
        left = [site for site in left if site.name not in names]
        groups += _cut(declared.group_name, inside, size)
    groups += _cut("", left, size)
    return tuple(groups)


def _size(per_group: int | str, total: int) -> int:
    """Turn a number or percentage into a number from 1 to the total; nonsense means all."""
    if isinstance(per_group, int):
        size = per_group
    else:
        size = ceil(float(per_group.removesuffix("%")) / 100 * total)
    return size if 0 < size <= total else total


def _cut(name: str, sites: Sequence[Site], size: int) -> Iterator[Group]:
    for start in range(0, len(sites), size or 1):
        yield Group(name, tuple(sites[start : start + size]))
