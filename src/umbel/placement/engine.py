"""Decides which sites a placement uses, and says why, for every site."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from operator import attrgetter
from types import MappingProxyType

from umbel.errors import DocumentError
from umbel.model.placement import Placement
from umbel.model.site import Site, Verdict
from umbel.placement.filters import Filter, Objections, tolerated_until_s
from umbel.placement.groups import divide
from umbel.placement.scores import Column, World, columns, totals
from umbel.placement.spread import Selection, select
from umbel.placement.validate import Problem, misconfigured

NO_LOAD: Mapping[str, int] = MappingProxyType({})
_BY_NAME = attrgetter("name")
_TEENS = range(11, 14)
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


class PlacementMisconfigured(DocumentError):
    """A placement says something that has no meaning; it is not followed halfway."""

    code = "U151"

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"placement.{problem.where}: {problem.fact}", hint=problem.hint)


class SiteNamedTwice(DocumentError):
    """Two sites have one name, so that no verdict could be told from the other."""

    code = "U152"

    def __init__(self, name: str) -> None:
        super().__init__(f"two sites are called {name!r}", hint="give each site a name of its own")


def place(
    placement: Placement,
    sites: Sequence[Site],
    *,
    now_s: float,
    previous: Collection[str] = (),
    load: Mapping[str, int] = NO_LOAD,
) -> tuple[Verdict, ...]:
    """Judge every site: the chosen in decision order, then the others by name.

    `previous` names the sites that this placement chose last time, `load` counts for each site the
    other placements that use it. Pure: the same arguments, in any order, give the same answer.
    """
    for problem in misconfigured(placement):
        raise PlacementMisconfigured(problem)
    by_name = _in_order(sites)
    world = World(now_s, frozenset(previous), load)
    ask = Filter(placement, now_s=now_s, previous=world.previous).objections
    objections = [ask(site) for site in by_name]
    feasible = [site for site, told in zip(by_name, objections, strict=True) if not told]
    ranking = _rank(feasible, columns(placement.prioritizer_policy, feasible, world))
    constraints = placement.spread_policy.spread_constraints
    selection = select(ranking.sites, placement.number_of_clusters, constraints)
    passed_over = _passed_over(ranking, selection, placement.number_of_clusters)
    return (
        *_chosen(placement, ranking, selection),
        *_others(by_name, objections, passed_over),
    )


def next_change_s(placement: Placement, sites: Sequence[Site], *, now_s: float) -> float | None:
    """Give the earliest time after now at which time alone may change a verdict."""
    ends = {
        tolerated_until_s(taint, placement.tolerations) for site in sites for taint in site.taints
    }
    ends |= {end for site in sites for end in site.scores_until_s.values()}
    return min((end for end in ends if end is not None and now_s < end < inf), default=None)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Sites that may be chosen, best first, with their scores and what these are made of."""

    sites: list[Site]
    scores: list[int]
    parts: list[tuple[int, ...]]
    scored: list[Column]


def _in_order(sites: Sequence[Site]) -> list[Site]:
    by_name = sorted(sites, key=_BY_NAME)
    if len({site.name for site in by_name}) < len(by_name):
        twins = pairwise(by_name)
        raise SiteNamedTwice(next(a.name for a, b in twins if a.name == b.name))
    return by_name


def _rank(feasible: list[Site], scored: list[Column]) -> _Ranking:
    """Put the highest sum first; sites that are equal stay in the order of their names."""
    sums = totals(scored, len(feasible))
    parts = list(zip(*(column.values for column in scored), strict=True)) or [()] * len(feasible)
    order = sorted(range(len(feasible)), key=sums.__getitem__, reverse=True)
    return _Ranking(
        [feasible[i] for i in order], [sums[i] for i in order], [parts[i] for i in order], scored
    )


def _chosen(placement: Placement, ranking: _Ranking, selection: Selection) -> Iterator[Verdict]:
    ranks = {ranking.sites[rank].name: rank for rank in selection.chosen}
    chosen = [ranking.sites[rank] for rank in selection.chosen]
    told: dict[tuple[int, ...], str] = {}
    for index, group in enumerate(divide(placement.decision_strategy.group_strategy, chosen)):
        for site in group.sites:
            rank = ranks[site.name]
            score, parts = ranking.scores[rank], ranking.parts[rank]
            if parts not in told:
                told[parts] = f"chosen: score {score}{_sum(ranking.scored, parts)}"
            remark = selection.remarks.get(rank)
            reasons = (told[parts], remark) if remark else (told[parts],)
            yield Verdict(site.name, True, reasons, score, group.name, index)


def _passed_over(ranking: _Ranking, selection: Selection, wanted: int | None) -> dict[str, Verdict]:
    left = sorted(set(range(len(ranking.sites))) - set(selection.chosen))
    only = f"only {wanted} wanted" if wanted else "none wanted"
    found: dict[str, Verdict] = {}
    for rank in left:
        why = selection.remarks.get(rank) or f"ranked {ordinal(rank + 1)}, {only}"
        name = ranking.sites[rank].name
        found[name] = Verdict(name, False, (why,), ranking.scores[rank])
    return found


def _others(
    by_name: Sequence[Site], objections: Sequence[Objections], passed_over: Mapping[str, Verdict]
) -> Iterator[Verdict]:
    for site, told in zip(by_name, objections, strict=True):
        if told:
            yield Verdict(site.name, False, told)
        elif site.name in passed_over:
            yield passed_over[site.name]


def _sum(scored: Sequence[Column], parts: Sequence[int]) -> str:
    terms = (f"{c.name} {part}x{c.weight}" for c, part in zip(scored, parts, strict=True))
    return f" = {' + '.join(terms)}" if scored else ", as nothing is scored"


def ordinal(number: int) -> str:
    """Write 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in _TEENS else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"
