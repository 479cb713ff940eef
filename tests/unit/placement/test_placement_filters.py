from __future__ import annotations

from typing import Any

import pytest

from umbel.model.placement import Effect, Placement
from umbel.model.site import Site, TaintSeen
from umbel.placement.engine import next_change_s, place

NOW_S = 1_000.0


def reasons(
    document: dict[str, Any], site: Site, *, previous: tuple[str, ...] = (), now_s: float = NOW_S
) -> tuple[str, ...]:
    """Why the site is refused; empty if it is chosen."""
    placement = Placement.model_validate(document)
    (verdict,) = place(placement, [site], now_s=now_s, previous=previous)
    return () if verdict.chosen else verdict.reasons


def labelled(*lines: dict[str, Any], **labels: str) -> dict[str, Any]:
    selector = {"labelSelector": {"matchLabels": labels, "matchExpressions": list(lines)}}
    return {"predicates": [{"requiredClusterSelector": selector}]}


def line(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def tainted(effect: Effect = Effect.NO_SELECT, *, since_s: float = 0.0, value: str = "") -> Site:
    return Site("a", taints=(TaintSeen("maintenance", value, effect, since_s),))


def test_an_empty_placement_takes_every_site() -> None:
    assert reasons({}, Site("a")) == ()


def test_a_missing_label_is_named() -> None:
    assert reasons(labelled(gpu="true"), Site("a")) == ("label gpu=true is missing",)


def test_a_wrong_label_is_named_with_both_values() -> None:
    site = Site("a", labels={"gpu": "false"})
    assert reasons(labelled(gpu="true"), site) == ("label gpu is 'false', wanted true",)


def test_every_unmet_requirement_is_named() -> None:
    document = labelled(line("zone", "Exists"), gpu="true")
    assert reasons(document, Site("a")) == ("label gpu=true is missing", "label zone is missing")


@pytest.mark.parametrize(
    ("wanted", "labels", "meets"),
    [
        (line("zone", "In", "a", "b"), {"zone": "b"}, True),
        (line("zone", "In", "a", "b"), {"zone": "c"}, False),
        (line("zone", "In", "a"), {}, False),
        (line("zone", "In", ""), {"zone": ""}, True),
        (line("zone", "In", ""), {}, False),
        (line("zone", "NotIn", "a"), {"zone": "b"}, True),
        (line("zone", "NotIn", "a"), {"zone": "a"}, False),
        (line("zone", "NotIn", "a"), {}, True),
        (line("zone", "NotIn", ""), {}, True),
        (line("zone", "Exists"), {"zone": ""}, True),
        (line("zone", "Exists"), {}, False),
        (line("zone", "DoesNotExist"), {}, True),
        (line("zone", "DoesNotExist"), {"zone": ""}, False),
    ],
)
def test_operators_mean_what_kubernetes_means(
    wanted: dict[str, Any], labels: dict[str, str], meets: bool
) -> None:
    assert (reasons(labelled(wanted), Site("a", labels=labels)) == ()) is meets


def test_claims_are_selected_like_labels() -> None:
    selector = {"claimSelector": {"matchExpressions": [line("platform", "In", "aws")]}}
    document = {"predicates": [{"requiredClusterSelector": selector}]}
    assert reasons(document, Site("a", claims={"platform": "aws"})) == ()
    assert reasons(document, Site("a", labels={"platform": "aws"})) == (
        "claim platform=aws is missing",
    )


def test_predicates_are_alternatives_and_each_says_what_it_misses() -> None:
    document = {
        "predicates": [*labelled(gpu="true")["predicates"], *labelled(tpu="true")["predicates"]]
    }
    assert reasons(document, Site("a", labels={"tpu": "true"})) == ()
    assert reasons(document, Site("a")) == (
        "predicate 1: label gpu=true is missing",
        "predicate 2: label tpu=true is missing",
    )


def test_only_the_named_cluster_sets_count() -> None:
    document = {"clusterSets": ["hospitals", "labs"]}
    assert reasons(document, Site("a", cluster_set="labs")) == ()
    assert reasons(document, Site("a")) == ("cluster set is default, not hospitals or labs",)


def test_the_global_set_holds_every_site() -> None:
    assert reasons({"clusterSets": ["global", "labs"]}, Site("a", cluster_set="other")) == ()


def test_a_taint_keeps_away() -> None:
    assert reasons({}, tainted()) == ("taint maintenance:NoSelect is not tolerated",)
    assert reasons({}, tainted(value="now")) == ("taint maintenance=now:NoSelect is not tolerated",)


def test_prefer_no_select_changes_nothing_as_in_ocm() -> None:
    assert reasons({}, tainted(Effect.PREFER_NO_SELECT)) == ()


def test_no_select_if_new_keeps_who_is_in() -> None:
    site = tainted(Effect.NO_SELECT_IF_NEW)
    assert reasons({}, site, previous=("a",)) == ()
    assert reasons({}, site) == ("taint maintenance:NoSelectIfNew is not tolerated",)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "maintenance", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "maintenance", "value": "now"}, True),
        ({"key": "maintenance", "value": "later"}, False),
        ({"key": "maintenance"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "maintenance", "operator": "Exists", "effect": "NoSelect"}, True),
        ({"key": "maintenance", "operator": "Exists", "effect": "NoSelectIfNew"}, False),
    ],
)
def test_tolerations_match_by_key_value_and_effect(
    toleration: dict[str, Any], tolerated: bool
) -> None:
    assert (reasons({"tolerations": [toleration]}, tainted(value="now")) == ()) is tolerated


def test_a_toleration_ends_with_its_last_second() -> None:
    document = {
        "tolerations": [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60}]
    }
    site = tainted(since_s=100.0)
    assert reasons(document, site, now_s=159.9) == ()
    assert reasons(document, site, now_s=160.0) == (
        "taint maintenance:NoSelect is no longer tolerated",
    )


def test_the_longest_toleration_counts() -> None:
    tolerations = [
        {"key": "maintenance", "operator": "Exists", "tolerationSeconds": 0},
        {"operator": "Exists"},
    ]
    assert reasons({"tolerations": tolerations}, tainted()) == ()


def test_predicates_and_taints_are_told_together() -> None:
    assert reasons(labelled(gpu="true"), tainted()) == (
        "label gpu=true is missing",
        "taint maintenance:NoSelect is not tolerated",
    )


def test_the_next_change_is_the_first_end_still_to_come() -> None:
    document = {
        "tolerations": [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60}]
    }
    placement = Placement.model_validate(document)
    sites = [tainted(since_s=100.0), Site("b", scores_until_s={"energy": 150.0})]
    assert next_change_s(placement, sites, now_s=100.0) == 150.0
    assert next_change_s(placement, sites, now_s=150.0) == 160.0
    assert next_change_s(placement, sites, now_s=160.0) is None
