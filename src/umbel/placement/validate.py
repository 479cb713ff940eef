"""Finds placements that cannot work, before anybody looks at the world."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from umbel.model.document import LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN
from umbel.model.placement import (
    GroupStrategy,
    LabelSelector,
    Operator,
    Placement,
    PrioritizerPolicy,
    Requirement,
    ScoreCoordinate,
    SiteSelector,
    SpreadConstraint,
    Toleration,
)
from umbel.placement import cel

Path = tuple[str | int, ...]

_LONGEST_KEY = 317
_LONGEST_VALUE = 63


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where (document keys, from the placement on), and what to do."""

    path: Path
    fact: str
    hint: str

    @property
    def where(self) -> str:
        """The path in one word: `predicates[0].requiredClusterSelector`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return "".join(steps).lstrip(".")


def check(placement: Placement) -> tuple[Problem, ...]:
    """Find everything that has no meaning or can never come true. Raises nothing."""
    return (
        *misconfigured(placement),
        *_expressions(placement),
        *_contradictions(placement),
        *_twins(placement.prioritizer_policy),
        *_spread(placement.spread_policy.spread_constraints),
        *_empty_groups(placement.decision_strategy.group_strategy),
    )


def misconfigured(placement: Placement) -> tuple[Problem, ...]:
    """Find what has no meaning, CEL apart: OCM chooses nothing for such a placement."""
    return (
        *(p for path, selector in _selectors(placement) for p in _selector(path, selector)),
        *_coordinates(placement.prioritizer_policy),
        *_tolerations(placement.tolerations),
        *_groups(placement.decision_strategy.group_strategy),
    )


def _selectors(placement: Placement) -> Iterator[tuple[Path, SiteSelector]]:
    for i, predicate in enumerate(placement.predicates):
        yield ("predicates", i, "requiredClusterSelector"), predicate.required_cluster_selector
    groups = placement.decision_strategy.group_strategy.decision_groups
    for i, group in enumerate(groups):
        yield _group_path(i), group.group_cluster_selector


def _group_path(index: int) -> Path:
    start = ("decisionStrategy", "groupStrategy", "decisionGroups")
    return (*start, index, "groupClusterSelector")


def _requirements(path: Path, selector: SiteSelector) -> Iterator[tuple[Path, Requirement]]:
    for kind, part in (
        ("labelSelector", selector.label_selector),
        ("claimSelector", selector.claim_selector),
    ):
        for i, requirement in enumerate(part.match_expressions):
            yield (*path, kind, "matchExpressions", i), requirement


def _selector(path: Path, selector: SiteSelector) -> Iterator[Problem]:
    for at, requirement in _requirements(path, selector):
        yield from _requirement(at, requirement)


def _requirement(path: Path, requirement: Requirement) -> Iterator[Problem]:
    if not _fits(LABEL_KEY_PATTERN, requirement.key, _LONGEST_KEY):
        fact = f"{requirement.key!r} is not a label or claim name"
        yield Problem((*path, "key"), fact, "write name or example.org/name")
    takes_values = requirement.operator in (Operator.IN, Operator.NOT_IN)
    if takes_values and not requirement.values:
        fact = f"{requirement.operator} has no values"
        yield Problem((*path, "values"), fact, "give at least one value, or use Exists")
    if not takes_values and requirement.values:
        fact = f"{requirement.operator} takes no values"
        yield Problem((*path, "values"), fact, "remove the values, or use In or NotIn")
    for i, value in enumerate(requirement.values if takes_values else ()):
        if not _fits(LABEL_VALUE_PATTERN, value, _LONGEST_VALUE):
            fact = f"{value!r} can be no selector's value"
            hint = "at most 63 letters, digits, '-', '_' and '.'; for other values use celSelector"
            yield Problem((*path, "values", i), fact, hint)


def _fits(pattern: str, text: str, longest: int) -> bool:
    return len(text) <= longest and re.fullmatch(pattern, text) is not None


def _coordinates(policy: PrioritizerPolicy) -> Iterator[Problem]:
    for i, configuration in enumerate(policy.configurations):
        yield from _coordinate(_coordinate_path(i), configuration.score_coordinate)


def _twins(policy: PrioritizerPolicy) -> Iterator[Problem]:
    seen: list[ScoreCoordinate] = []
    for i, configuration in enumerate(policy.configurations):
        if configuration.score_coordinate in seen:
            fact = "this score is configured twice"
            yield Problem(_coordinate_path(i), fact, "keep one of the two weights")
        seen.append(configuration.score_coordinate)


def _coordinate_path(index: int) -> Path:
    return ("prioritizerPolicy", "configurations", index, "scoreCoordinate")


def _coordinate(path: Path, coordinate: ScoreCoordinate) -> Iterator[Problem]:
    wanted, other = ("builtIn", "addOn") if coordinate.type == "BuiltIn" else ("addOn", "builtIn")
    given = {"builtIn": coordinate.built_in, "addOn": coordinate.add_on}
    if given[wanted] is None:
        fact = f"type {coordinate.type} needs {wanted}"
        yield Problem((*path, wanted), fact, f"add {wanted}, or change the type")
    if given[other] is not None:
        fact = f"type {coordinate.type} takes no {other}"
        yield Problem((*path, other), fact, f"remove {other}, or change the type")


def _tolerations(tolerations: Sequence[Toleration]) -> Iterator[Problem]:
    for i, toleration in enumerate(tolerations):
        if not toleration.key and toleration.operator != "Exists":
            fact = "a toleration without a key needs operator Exists"
            hint = "add the taint's key, or write operator: Exists to tolerate all"
            yield Problem(("tolerations", i, "key"), fact, hint)
        if toleration.operator == "Exists" and toleration.value:
            fact = "operator Exists takes no value"
            yield Problem(("tolerations", i, "value"), fact, "remove the value, or use Equal")


def _spread(constraints: Sequence[SpreadConstraint]) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        path: Path = ("spreadPolicy", "spreadConstraints", i, "topologyKey")
        key = constraint.topology_key
        if not _fits(LABEL_KEY_PATTERN, key, _LONGEST_KEY):
            fact = f"{key!r} is not a label or claim name"
            yield Problem(path, fact, "write name or example.org/name")
        if (constraint.topology_key_type, key) in seen:
            fact = f"{constraint.topology_key_type} {key!r} is spread over twice"
            yield Problem(path, fact, "keep one of the two constraints")
        seen.add((constraint.topology_key_type, key))


def _groups(strategy: GroupStrategy) -> Iterator[Problem]:
    for i, group in enumerate(strategy.decision_groups):
        if group.group_cluster_selector.cel_selector.cel_expressions:
            fact = f"group {group.group_name!r} has a CEL selector, which groups do not know"
            hint = "use labelSelector or claimSelector here"
            yield Problem((*_group_path(i), "celSelector"), fact, hint)


def _empty_groups(strategy: GroupStrategy) -> Iterator[Problem]:
    if strategy.clusters_per_decision_group == "0%":
        path = ("decisionStrategy", "groupStrategy", "clustersPerDecisionGroup")
        yield Problem(path, "groups of 0% have no sites", "give 1% to 100%, or a number")


def _expressions(placement: Placement) -> Iterator[Problem]:
    for i, predicate in enumerate(placement.predicates):
        expressions = predicate.required_cluster_selector.cel_selector.cel_expressions
        path: Path = ("predicates", i, "requiredClusterSelector", "celSelector", "celExpressions")
        for j, expression in enumerate(expressions):
            try:
                cel.compile(expression)
            except cel.CelInvalid as error:
                yield Problem((*path, j), error.fact, error.hint)


def _contradictions(placement: Placement) -> Iterator[Problem]:
    for path, selector in _selectors(placement):
        labels = selector.label_selector
        claims = LabelSelector(match_expressions=selector.claim_selector.match_expressions)
        for kind, part in (("labelSelector", labels), ("claimSelector", claims)):
            for key in _impossible(part):
                word = kind.removesuffix("Selector")
                fact = f"no site can meet what is required of {word} {key!r}"
                hint = "the requirements contradict each other: remove one, or use two predicates"
                yield Problem((*path, kind), fact, hint)


def _impossible(selector: LabelSelector) -> Iterator[str]:
    """Name the keys of which nothing can be true."""
    lines = selector.match_expressions
    counted = Counter([*selector.match_labels, *(line.key for line in lines)])
    for key in (key for key, number in counted.items() if number > 1):
        mine = [line for line in lines if line.key == key]
        allowed = [{*line.values} for line in mine if line.operator is Operator.IN]
        allowed += [{selector.match_labels[key]}] if key in selector.match_labels else []
        forbidden = {v for line in mine if line.operator is Operator.NOT_IN for v in line.values}
        operators = {line.operator for line in mine}
        absent = Operator.DOES_NOT_EXIST in operators
        if (absent and (allowed or Operator.EXISTS in operators)) or (
            allowed and not set.intersection(*allowed) - forbidden
        ):
            yield key
