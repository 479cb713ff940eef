from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from umbel.model.placement import (
    AddOnScore,
    BuiltIn,
    ClaimSelector,
    DecisionGroup,
    DecisionStrategy,
    Effect,
    GroupStrategy,
    LabelSelector,
    Operator,
    Placement,
    Predicate,
    PrioritizerConfig,
    PrioritizerPolicy,
    Requirement,
    ScoreCoordinate,
    SiteSelector,
    SpreadConstraint,
    SpreadPolicy,
    Toleration,
)
from umbel.model.site import Site, TaintSeen, Verdict
from umbel.placement.engine import next_change_s, place

KEYS = ("gpu", "zone")
VALUES = ("", "a", "b", "c")
NOW_S = 1_000.0
T = TypeVar("T")

# Pools of parts, always the same: drawing whole parts is what keeps these tests quick.
dice = random.Random(7)  # noqa: S311  # nothing secret
many = settings(deadline=None, max_examples=80, database=None)


def pool(make: Callable[[], T], number: int = 40) -> st.SearchStrategy[T]:
    return st.sampled_from([make() for _ in range(number)])


def some_facts() -> dict[str, str]:
    return {key: dice.choice(VALUES) for key in KEYS if dice.random() < 0.7}


def some_taints() -> tuple[TaintSeen, ...]:
    if dice.random() < 0.6:
        return ()
    since_s = dice.choice((0.0, 900.0, 999.0))
    return (TaintSeen(dice.choice("tu"), "", dice.choice(list(Effect)), since_s),)


def some_site(number: int) -> Site:
    return Site(
        f"s{number:02d}",
        cluster_set=dice.choice(("default", "edge")),
        labels=some_facts(),
        claims=some_facts(),
        taints=some_taints(),
        allocatable_cpu=dice.choice((None, 0, 1, 2, 5)),
        capacity_cpu=5,
        scores=dice.choice(({}, {"r/s": dice.randrange(-100, 101)})),
    )


def some_requirement() -> Requirement:
    operator = dice.choice(list(Operator))
    takes_values = operator in (Operator.IN, Operator.NOT_IN)
    values = dice.sample(VALUES, dice.randint(1, 3)) if takes_values else ()
    return Requirement(key=dice.choice(KEYS), operator=operator, values=tuple(values))


def some_selector() -> SiteSelector:
    lines = [some_requirement() for _ in range(dice.randint(0, 2))]
    labels = some_facts() if dice.random() < 0.2 else {}
    return SiteSelector(
        label_selector=LabelSelector(match_labels=labels, match_expressions=tuple(lines)),
        claim_selector=ClaimSelector(match_expressions=tuple(lines[:1][: dice.randint(0, 1)])),
    )


def some_predicates() -> tuple[Predicate, ...]:
    number = dice.randint(0, 2)
    return tuple(Predicate(required_cluster_selector=some_selector()) for _ in range(number))


def some_policy() -> PrioritizerPolicy:
    add_on = AddOnScore(resource_name="r", score_name="s")
    coordinates = [ScoreCoordinate(built_in=name) for name in BuiltIn]
    coordinates.append(ScoreCoordinate(type="AddOn", add_on=add_on))
    configurations = [
        PrioritizerConfig(score_coordinate=c, weight=dice.randint(-10, 10))
        for c in dice.sample(coordinates, dice.randint(0, 2))
    ]
    mode: Literal["Additive", "Exact"] = dice.choice(("Additive", "Exact"))
    return PrioritizerPolicy(mode=mode, configurations=tuple(configurations))


def some_tolerations() -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=dice.choice("tu"),
            operator="Exists",
            effect=dice.choice((None, *Effect)),
            toleration_seconds=dice.choice((None, 0, 50, 100, 2_000)),
        )
        for _ in range(dice.randint(0, 2))
    )


def some_constraint() -> SpreadConstraint:
    return SpreadConstraint.model_validate(
        {
            "topologyKey": dice.choice(KEYS),
            "topologyKeyType": dice.choice(("Label", "Claim")),
            "maxSkew": dice.randint(1, 2),
            "whenUnsatisfiable": dice.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
    )


def some_spread() -> SpreadPolicy:
    number = dice.randint(0, 2)
    return SpreadPolicy(spread_constraints=tuple(some_constraint() for _ in range(number)))


def some_groups() -> DecisionStrategy:
    groups = tuple(
        DecisionGroup(group_name=name, group_cluster_selector=some_selector())
        for name in "xy"[: dice.randint(0, 2)]
    )
    size = dice.choice((1, 2, 5, "30%", "100%"))
    strategy = GroupStrategy(decision_groups=groups, clusters_per_decision_group=size)
    return DecisionStrategy(group_strategy=strategy)


site = st.sampled_from([some_site(number) for number in range(60)])
fleets = st.lists(site, max_size=14, unique_by=lambda one: one.name)
placements = st.fixed_dictionaries(
    {
        "cluster_sets": st.sampled_from(((), (), ("edge",), ("global",))),
        "number_of_clusters": st.none() | st.integers(0, 6),
        "predicates": pool(some_predicates),
        "prioritizer_policy": pool(some_policy),
        "spread_policy": pool(some_spread),
        "tolerations": pool(some_tolerations),
        "decision_strategy": pool(some_groups),
    }
).map(lambda parts: Placement().model_copy(update=parts))


@dataclass(frozen=True)
class World:
    """A placement and all that its verdicts depend on."""

    placement: Placement
    sites: list[Site]
    previous: list[str]
    load: dict[str, int]

    def verdicts(self, **changes: Any) -> tuple[Verdict, ...]:
        world = replace(self, **changes)
        return place(
            world.placement, world.sites, now_s=NOW_S, previous=world.previous, load=world.load
        )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    fleet = draw(fleets)
    many = st.integers(0, len(fleet))
    by_name = sorted(fleet, key=lambda one: one.name)
    previous = [one.name for one in by_name[draw(many) :]]
    load = {one.name: 1 + index % 3 for index, one in enumerate(fleet[draw(many) :])}
    return World(draw(placements), fleet, previous, load)


def holds(requirement: Requirement, known: Mapping[str, str]) -> bool:
    """The meaning of Kubernetes' documentation, told once more."""
    value = known.get(requirement.key)
    return {
        Operator.IN: value is not None and value in requirement.values,
        Operator.NOT_IN: value is None or value not in requirement.values,
        Operator.EXISTS: value is not None,
        Operator.DOES_NOT_EXIST: value is None,
    }[requirement.operator]


def fits(selector: SiteSelector, site: Site) -> bool:
    labels = selector.label_selector
    return (
        labels.match_labels.items() <= site.labels.items()
        and all(holds(r, site.labels) for r in labels.match_expressions)
        and all(holds(r, site.claims) for r in selector.claim_selector.match_expressions)
    )


def feasible(world: World, site: Site) -> bool:
    placement = world.placement
    sets = placement.cluster_sets
    return (
        (not sets or "global" in sets or site.cluster_set in sets)
        and (
            not placement.predicates
            or any(fits(p.required_cluster_selector, site) for p in placement.predicates)
        )
        and all(bears(world, site, taint) for taint in site.taints)
    )


def bears(world: World, site: Site, taint: TaintSeen) -> bool:
    if taint.effect is Effect.PREFER_NO_SELECT:
        return True
    if taint.effect is Effect.NO_SELECT_IF_NEW and site.name in world.previous:
        return True
    return any(
        t.key == taint.key
        and t.effect in (None, taint.effect)
        and (t.toleration_seconds is None or taint.since_s + t.toleration_seconds > NOW_S)
        for t in world.placement.tolerations
    )


def chosen(verdicts: tuple[Verdict, ...]) -> set[str]:
    return {verdict.site for verdict in verdicts if verdict.chosen}


def without_spread(placement: Placement) -> Placement:
    return placement.model_copy(update={"spread_policy": SpreadPolicy()})


@many
@given(worlds())
def test_every_site_has_one_verdict_with_a_reason(world: World) -> None:
    verdicts = world.verdicts()
    assert sorted(v.site for v in verdicts) == sorted(site.name for site in world.sites)
    assert all(v.reasons and all(v.reasons) for v in verdicts)


@many
@given(worlds())
def test_never_more_than_wanted(world: World) -> None:
    wanted = world.placement.number_of_clusters
    assert wanted is None or len(chosen(world.verdicts())) <= wanted


@many
@given(worlds())
def test_only_feasible_sites_are_chosen(world: World) -> None:
    taken = chosen(world.verdicts())
    assert all(feasible(world, site) for site in world.sites if site.name in taken)


@many
@given(worlds())
def test_without_spread_as_many_as_can_be_are_chosen_and_the_best(world: World) -> None:
    verdicts = world.verdicts(placement=without_spread(world.placement))
    possible = {site.name for site in world.sites if feasible(world, site)}
    wanted = world.placement.number_of_clusters
    assert len(chosen(verdicts)) == min(len(possible), len(possible) if wanted is None else wanted)
    ranks = {v.site: (-v.score, v.site) for v in verdicts if v.site in possible}
    left = possible - chosen(verdicts)
    assert all(ranks[one] < ranks[other] for one in chosen(verdicts) for other in left)


@many
@given(worlds(), st.integers(0, 14))
def test_the_order_of_what_is_given_does_not_matter(world: World, cut: int) -> None:
    turned = [*world.sites[cut:], *world.sites[:cut]]
    assert world.verdicts(sites=turned, previous=world.previous[::-1]) == world.verdicts()
    assert world.verdicts(sites=world.sites[::-1]) == world.verdicts()


@many
@given(worlds(), site)
def test_a_site_that_cannot_be_chosen_changes_nothing(world: World, other: Site) -> None:
    outsider = replace(other, name="outsider", taints=(TaintSeen("never"),))
    before = world.verdicts()
    after = world.verdicts(sites=[*world.sites, outsider])
    assert [v for v in after if v.site != "outsider"] == list(before)


@many
@given(worlds())
def test_what_was_chosen_is_chosen_again(world: World) -> None:
    steady = world.placement.model_copy(
        update={"prioritizer_policy": PrioritizerPolicy(), "spread_policy": SpreadPolicy()}
    )
    first = chosen(world.verdicts(placement=steady, load={}))
    again = chosen(world.verdicts(placement=steady, previous=sorted(first), load={}))
    assert again == first


@many
@given(worlds())
def test_hard_constraints_keep_their_skew(world: World) -> None:
    taken = chosen(world.verdicts())
    for rule in world.placement.spread_policy.spread_constraints:
        if rule.when_unsatisfiable == "ScheduleAnyway":
            continue
        places: Counter[str | None] = Counter()
        for site in world.sites:
            if feasible(world, site):
                known = site.labels if rule.topology_key_type == "Label" else site.claims
                places[known.get(rule.topology_key)] += site.name in taken
        assert not places.pop(None, 0)
        assert not places or max(places.values()) - min(places.values()) <= rule.max_skew


@many
@given(worlds())
def test_soft_constraints_leave_nobody_out_for_nothing(world: World) -> None:
    rules = world.placement.spread_policy.spread_constraints
    soft = tuple(r.model_copy(update={"when_unsatisfiable": "ScheduleAnyway"}) for r in rules)
    softened = world.placement.model_copy(
        update={"spread_policy": SpreadPolicy(spread_constraints=soft)}
    )
    plain = world.verdicts(placement=without_spread(world.placement))
    assert len(chosen(world.verdicts(placement=softened))) == len(chosen(plain))


@many
@given(worlds())
def test_one_hard_constraint_takes_as_many_as_its_skew_allows(world: World) -> None:
    rule = SpreadConstraint(topology_key="zone", when_unsatisfiable="DoNotSchedule")
    placement = world.placement.model_copy(
        update={
            "spread_policy": SpreadPolicy(spread_constraints=(rule,)),
            "number_of_clusters": None,
        }
    )
    verdicts = world.verdicts(placement=placement)
    zones = Counter(
        s.labels["zone"] for s in world.sites if "zone" in s.labels and feasible(world, s)
    )
    fewest = min(zones.values(), default=0)
    assert len(chosen(verdicts)) == sum(min(n, fewest + rule.max_skew) for n in zones.values())


@many
@given(worlds())
def test_groups_hold_every_chosen_site_in_order(world: World) -> None:
    strategy = world.placement.decision_strategy.group_strategy
    verdicts = [v for v in world.verdicts() if v.chosen]
    indexes = [v.decision_index for v in verdicts]
    assert indexes == sorted(indexes)
    assert set(indexes) == set(range(len(set(indexes))))
    known = {site.name: site for site in world.sites}
    for verdict in verdicts:
        first = next(
            (
                g.group_name
                for g in strategy.decision_groups
                if fits(g.group_cluster_selector, known[verdict.site])
            ),
            "",
        )
        assert verdict.decision_group == first


@many
@given(worlds())
def test_nothing_changes_before_the_next_change(world: World) -> None:
    change_s = next_change_s(world.placement, world.sites, now_s=NOW_S)
    just_before = NOW_S + 10_000 if change_s is None else change_s - 0.5
    later = place(
        world.placement,
        world.sites,
        now_s=just_before,
        previous=world.previous,
        load=world.load,
    )
    assert later == world.verdicts()


@many
@given(worlds())
def test_the_sum_in_the_reason_is_the_score(world: World) -> None:
    for verdict in world.verdicts():
        if verdict.chosen and "=" in verdict.reasons[0]:
            terms = verdict.reasons[0].partition("= ")[2].split(" + ")
            products = (term.rpartition(" ")[2].split("x") for term in terms)
            assert sum(int(part) * int(weight) for part, weight in products) == verdict.score
