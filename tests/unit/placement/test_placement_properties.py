from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from umbel.model.placement import (
    AddOnScore,
    BuiltIn,
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

facts = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
taints = st.builds(
    TaintSeen,
    key=st.sampled_from(("t", "u")),
    value=st.sampled_from(("", "v")),
    effect=st.sampled_from(Effect),
    since_s=st.sampled_from((0.0, 900.0, 999.0)),
)
amounts = st.none() | st.integers(0, 5)


@st.composite
def sites(draw: st.DrawFn, *, least: int = 0, most: int = 12) -> list[Site]:
    numbers = draw(st.sets(st.integers(0, 99), min_size=least, max_size=most))
    return [
        Site(
            f"s{number:02d}",
            cluster_set=draw(st.sampled_from(("default", "edge"))),
            labels=draw(facts),
            claims=draw(facts),
            taints=tuple(draw(st.lists(taints, max_size=1))),
            allocatable_cpu=draw(amounts),
            capacity_cpu=5,
            scores=draw(st.dictionaries(st.just("r/s"), st.integers(-100, 100))),
        )
        for number in numbers
    ]


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(Operator))
    takes_values = operator in (Operator.IN, Operator.NOT_IN)
    values = draw(st.sets(st.sampled_from(VALUES), min_size=1)) if takes_values else ()
    return Requirement(
        key=draw(st.sampled_from(KEYS)), operator=operator, values=tuple(sorted(values))
    )


label_selectors = st.builds(
    LabelSelector,
    match_labels=facts,
    match_expressions=st.lists(requirements(), max_size=2).map(tuple),
)
selectors = st.builds(SiteSelector, label_selector=label_selectors)
predicates = st.lists(st.builds(Predicate, required_cluster_selector=selectors), max_size=2).map(
    tuple
)
coordinates = st.sampled_from(
    (
        *(ScoreCoordinate(built_in=name) for name in BuiltIn),
        ScoreCoordinate(type="AddOn", add_on=AddOnScore(resource_name="r", score_name="s")),
    )
)
policies = st.builds(
    PrioritizerPolicy,
    mode=st.sampled_from(("Additive", "Exact")),
    configurations=st.lists(
        st.builds(PrioritizerConfig, score_coordinate=coordinates, weight=st.integers(-10, 10)),
        max_size=2,
    ).map(tuple),
)
tolerations = st.lists(
    st.builds(
        Toleration,
        key=st.sampled_from(("t", "u")),
        operator=st.just("Exists"),
        effect=st.none() | st.sampled_from(Effect),
        toleration_seconds=st.none() | st.sampled_from((0, 50, 100, 2_000)),
    ),
    max_size=2,
).map(tuple)
constraints = st.builds(
    SpreadConstraint,
    topology_key=st.sampled_from(KEYS),
    topology_key_type=st.sampled_from(("Label", "Claim")),
    max_skew=st.integers(1, 2),
    when_unsatisfiable=st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
)
spreads = st.lists(constraints, max_size=2).map(
    lambda found: SpreadPolicy(spread_constraints=tuple(found))
)
groups = st.builds(
    GroupStrategy,
    decision_groups=st.lists(
        st.builds(
            DecisionGroup, group_name=st.sampled_from(("x", "y")), group_cluster_selector=selectors
        ),
        max_size=2,
    ).map(tuple),
    clusters_per_decision_group=st.sampled_from((1, 2, 5, "30%", "100%")),
)
placements = st.builds(
    Placement,
    cluster_sets=st.sampled_from(((), ("edge",), ("global",))),
    number_of_clusters=st.none() | st.integers(0, 6),
    predicates=predicates,
    prioritizer_policy=policies,
    spread_policy=st.just(SpreadPolicy()) | spreads,
    tolerations=tolerations,
    decision_strategy=st.builds(DecisionStrategy, group_strategy=groups),
)


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
def worlds(draw: st.DrawFn, chosen_from: st.SearchStrategy[Placement] = placements) -> World:
    fleet = draw(sites())
    names = [site.name for site in fleet]
    some = st.lists(st.sampled_from(names), unique=True) if names else st.just([])
    load = {name: draw(st.integers(1, 3)) for name in draw(some)}
    return World(draw(chosen_from), fleet, draw(some), load)


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


@given(worlds())
def test_every_site_has_one_verdict_with_a_reason(world: World) -> None:
    verdicts = world.verdicts()
    assert sorted(v.site for v in verdicts) == sorted(site.name for site in world.sites)
    assert all(v.reasons and all(v.reasons) for v in verdicts)


@given(worlds())
def test_never_more_than_wanted(world: World) -> None:
    wanted = world.placement.number_of_clusters
    assert wanted is None or len(chosen(world.verdicts())) <= wanted


@given(worlds())
def test_only_feasible_sites_are_chosen(world: World) -> None:
    taken = chosen(world.verdicts())
    assert all(feasible(world, site) for site in world.sites if site.name in taken)


@given(worlds())
def test_without_spread_as_many_as_can_be_are_chosen_and_the_best(world: World) -> None:
    verdicts = world.verdicts(placement=without_spread(world.placement))
    possible = {site.name for site in world.sites if feasible(world, site)}
    wanted = world.placement.number_of_clusters
    assert len(chosen(verdicts)) == min(len(possible), len(possible) if wanted is None else wanted)
    ranks = {v.site: (-v.score, v.site) for v in verdicts if v.site in possible}
    left = possible - chosen(verdicts)
    assert all(ranks[one] < ranks[other] for one in chosen(verdicts) for other in left)


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_does_not_matter(world: World, dice: Any) -> None:
    shuffled = dice.sample(world.sites, len(world.sites))
    previous = dice.sample(world.previous, len(world.previous))
    assert world.verdicts(sites=shuffled, previous=previous) == world.verdicts()


@given(worlds(), sites(least=1, most=1))
def test_a_site_that_cannot_be_chosen_changes_nothing(world: World, more: list[Site]) -> None:
    outsider = replace(more[0], name="outsider", taints=(TaintSeen("never"),))
    before = world.verdicts()
    after = world.verdicts(sites=[*world.sites, outsider])
    assert [v for v in after if v.site != "outsider"] == list(before)


@given(worlds(placements.map(lambda p: p.model_copy(update={"tolerations": ()}))))
def test_what_was_chosen_is_chosen_again(world: World) -> None:
    steady = world.placement.model_copy(
        update={"prioritizer_policy": PrioritizerPolicy(), "spread_policy": SpreadPolicy()}
    )
    first = chosen(world.verdicts(placement=steady, load={}))
    again = chosen(world.verdicts(placement=steady, previous=sorted(first), load={}))
    assert again == first


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


@given(worlds())
def test_soft_constraints_leave_nobody_out_for_nothing(world: World) -> None:
    rules = world.placement.spread_policy.spread_constraints
    soft = tuple(r.model_copy(update={"when_unsatisfiable": "ScheduleAnyway"}) for r in rules)
    softened = world.placement.model_copy(
        update={"spread_policy": SpreadPolicy(spread_constraints=soft)}
    )
    plain = world.verdicts(placement=without_spread(world.placement))
    assert len(chosen(world.verdicts(placement=softened))) == len(chosen(plain))


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


@settings(max_examples=25)
@given(worlds())
def test_the_sum_in_the_reason_is_the_score(world: World) -> None:
    for verdict in world.verdicts():
        if verdict.chosen and "=" in verdict.reasons[0]:
            terms = verdict.reasons[0].partition("= ")[2].split(" + ")
            products = (term.rpartition(" ")[2].split("x") for term in terms)
            assert sum(int(part) * int(weight) for part, weight in products) == verdict.score
