"""Which sites may be chosen at all: cluster sets, predicates, taints and tolerations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf

from umbel.model.placement import (
    Effect,
    Operator,
    Placement,
    Predicate,
    Requirement,
    SiteSelector,
    Toleration,
)
from umbel.model.site import Site, TaintSeen
from umbel.placement.cel import Question

GLOBAL_SET = "global"  # OCM's set of all sites

Miss = Callable[[Mapping[str, str]], str | None]  # why a requirement is not met, None if it is
Objections = tuple[str, ...]  # why a site may not be chosen; empty if it may


class Selector:
    """A site selector made ready: label, claim and CEL selectors, all of which must hold."""

    def __init__(self, selector: SiteSelector, *, told_as: str = "") -> None:
        """Compile; raises CelInvalid. `told_as` starts every reason."""
        labels = selector.label_selector
        self._labels: tuple[Miss, ...] = (
            *(_one_of(f"{told_as}label", k, (v,)) for k, v in labels.match_labels.items()),
            *(_requirement(f"{told_as}label", r) for r in labels.match_expressions),
        )
        claims = selector.claim_selector.match_expressions
        self._claims = tuple(_requirement(f"{told_as}claim", r) for r in claims)
        expressions = selector.cel_selector.cel_expressions
        self._question = Question(expressions) if expressions else None
        self._told_as = told_as

    def misses(self, site: Site) -> list[str]:
        """Name every requirement that the site does not meet; CEL is asked last, it is dear."""
        labels, claims = site.labels, site.claims
        misses = [told for miss in self._labels if (told := miss(labels))]
        if self._claims:
            misses += [told for miss in self._claims if (told := miss(claims))]
        if self._question and not misses and (told := self._question.miss(site)):
            misses.append(f"{self._told_as}{told}")
        return misses


class Filter:
    """A placement's filters made ready, to be asked site by site."""

    def __init__(self, placement: Placement, *, now_s: float, previous: Collection[str]) -> None:
        """Compile; raises CelInvalid."""
        sets = frozenset(placement.cluster_sets)
        self._sets = frozenset() if GLOBAL_SET in sets else sets
        self._wanted_sets = " or ".join(sorted(sets))
        self._selectors = _selectors(placement.predicates)
        self._tolerations = placement.tolerations
        self._now_s = now_s
        self._previous = previous

    def objections(self, site: Site) -> Objections:
        """Give every reason why the site may not be chosen; none means that it may."""
        if self._sets and site.cluster_set not in self._sets:
            return (f"cluster set is {site.cluster_set}, not {self._wanted_sets}",)
        misses: list[str] = []
        for selector in self._selectors:
            found = selector.misses(site)
            if not found:
                misses = []
                break
            misses += found
        if site.taints:
            misses += self._untolerated(site)
        return tuple(misses)

    def _untolerated(self, site: Site) -> Iterator[str]:
        for taint in site.taints:
            if taint.effect is Effect.PREFER_NO_SELECT:
                continue  # OCM takes it for a remark
            if taint.effect is Effect.NO_SELECT_IF_NEW and site.name in self._previous:
                continue
            until_s = tolerated_until_s(taint, self._tolerations)
            if until_s is None:
                yield f"taint {_name(taint)} is not tolerated"
            elif self._now_s >= until_s:
                yield f"taint {_name(taint)} is no longer tolerated"


def tolerated_until_s(taint: TaintSeen, tolerations: Sequence[Toleration]) -> float | None:
    """Give the time until which some toleration bears the taint; None if none does."""
    ends = [
        inf if t.toleration_seconds is None else taint.since_s + t.toleration_seconds
        for t in tolerations
        if (t.effect is None or t.effect is taint.effect)
        and t.key in ("", taint.key)
        and (t.operator == "Exists" or t.value == taint.value)
    ]
    return max(ends, default=None)


def _name(taint: TaintSeen) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _selectors(predicates: Sequence[Predicate]) -> tuple[Selector, ...]:
    several = len(predicates) > 1
    return tuple(
        Selector(p.required_cluster_selector, told_as=f"predicate {i}: " if several else "")
        for i, p in enumerate(predicates, start=1)
    )


def _requirement(kind: str, requirement: Requirement) -> Miss:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case Operator.IN:
            return _one_of(kind, key, values)
        case Operator.NOT_IN:
            return _none_of(kind, key, values)
        case Operator.EXISTS:
            told = f"{kind} {key} is missing"
            return lambda facts: None if key in facts else told
        case Operator.DOES_NOT_EXIST:
            unwanted = f"{kind} {key} is there, wanted without"
            return lambda facts: unwanted if key in facts else None


def _one_of(kind: str, key: str, values: Sequence[str]) -> Miss:
    wanted = f"={values[0]}" if len(values) == 1 else f" in ({', '.join(values)})"
    missing = f"{kind} {key}{wanted} is missing"
    told: dict[str | None, str | None] = {None: missing, **dict.fromkeys(values)}

    def miss(facts: Mapping[str, str]) -> str | None:
        value = facts.get(key)
        if value not in told:  # each wrong value is put in words once, however many sites have it
            told[value] = f"{kind} {key} is {value!r}, wanted {wanted.lstrip('= ')}"
        return told[value]

    return miss


def _none_of(kind: str, key: str, values: Sequence[str]) -> Miss:
    told = {value: f"{kind} {key}={value} is not wanted" for value in values}
    return lambda facts: told.get(facts[key]) if key in facts else None
