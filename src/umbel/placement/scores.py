"""In which order sites are chosen: prioritizers, weights, and the sum of both."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from umbel.model.placement import AddOnScore, BuiltIn, PrioritizerPolicy
from umbel.model.site import Site

HIGHEST = 100
DEFAULTS: tuple[BuiltIn, ...] = (BuiltIn.STEADY, BuiltIn.BALANCE)  # each with weight 1


@dataclass(frozen=True, slots=True)
class World:
    """What scores depend on besides the sites: the time, what was chosen, what others chose."""

    now_s: float
    previous: Collection[str]
    load: Mapping[str, int]  # by site: how many other placements use it


@dataclass(frozen=True, slots=True)
class Column:
    """One prioritizer's scores, a value a site."""

    name: str
    weight: int
    values: list[int]


@dataclass(frozen=True, slots=True)
class Weighed:
    """A prioritizer that counts."""

    source: BuiltIn | AddOnScore
    weight: int

    @property
    def name(self) -> str:
        """The name as OCM writes it."""
        match self.source:
            case AddOnScore(resource_name=resource, score_name=score):
                return f"AddOn/{resource}/{score}"
            case built_in:
                return str(built_in)


def weighed(policy: PrioritizerPolicy) -> tuple[Weighed, ...]:
    """List the prioritizers that count: defaults where Additive, as configured, none with 0."""
    defaults = DEFAULTS if policy.mode == "Additive" else ()
    built_in: dict[BuiltIn, int] = dict.fromkeys(defaults, 1)
    add_on: list[Weighed] = []
    for configuration in policy.configurations:
        coordinate, weight = configuration.score_coordinate, configuration.weight
        if coordinate.type == "AddOn" and coordinate.add_on:
            add_on.append(Weighed(coordinate.add_on, weight))
        elif coordinate.built_in:
            built_in[coordinate.built_in] = weight  # named twice, the last one counts
    chosen = (*(Weighed(name, weight) for name, weight in built_in.items()), *add_on)
    return tuple(one for one in chosen if one.weight)


def columns(policy: PrioritizerPolicy, sites: Sequence[Site], world: World) -> list[Column]:
    """Score every site by every prioritizer that counts."""
    return [Column(w.name, w.weight, _values(w.source, sites, world)) for w in weighed(policy)]


def totals(scored: Sequence[Column], number: int) -> list[int]:
    """Sum score times weight for each of the sites."""
    sums = [0] * number
    for column in scored:
        weight = column.weight
        sums = [s + value * weight for s, value in zip(sums, column.values, strict=True)]
    return sums


def _values(source: BuiltIn | AddOnScore, sites: Sequence[Site], world: World) -> list[int]:
    match source:
        case BuiltIn.STEADY:
            return [HIGHEST if site.name in world.previous else 0 for site in sites]
        case BuiltIn.BALANCE:
            return _balance(sites, world.load)
        case BuiltIn.RESOURCE_ALLOCATABLE_CPU:
            return _most([_known(s.allocatable_cpu, s.capacity_cpu) for s in sites])
        case BuiltIn.RESOURCE_ALLOCATABLE_MEMORY:
            return _most([_known(s.allocatable_memory, s.capacity_memory) for s in sites])
        case AddOnScore(resource_name=resource, score_name=name):
            return _published(resource, f"{resource}/{name}", sites, world.now_s)


def _balance(sites: Sequence[Site], load: Mapping[str, int]) -> list[int]:
    """100 where no other placement is, down to -100 where most of them are."""
    most = max(load.values(), default=0)
    if most <= 0:
        return [HIGHEST] * len(sites)
    # OCM cuts before it doubles: the scores are even numbers
    by_count = {n: 2 * int(HIGHEST * (0.5 - n / most)) for n in {0, *load.values()}}
    return [by_count[load.get(site.name, 0)] for site in sites]


def _known(allocatable: float | None, capacity: float | None) -> float | None:
    return None if capacity is None else allocatable


def _most(amounts: list[float | None]) -> list[int]:
    """-100 for the least, 100 for the most, 0 where nobody knows."""
    known = [amount for amount in amounts if amount is not None]
    least, most = min(known, default=0.0), max(known, default=0.0)
    if least == most:
        return [0 if amount is None else HIGHEST for amount in amounts]
    width = most - least
    return [
        0 if amount is None else int(((amount - least) / width - 0.5) * 2.0 * 100.0)
        for amount in amounts
    ]


def _published(resource: str, key: str, sites: Sequence[Site], now_s: float) -> list[int]:
    """Take what is published about each site; 0 where nothing is, or where it is too old."""
    return [
        0
        if site.scores_until_s and site.scores_until_s.get(resource, inf) < now_s
        else site.scores.get(key, 0)
        for site in sites
    ]
