from __future__ import annotations

from typing import Any

import pytest

from umbel.model.placement import Placement
from umbel.model.site import Site
from umbel.placement.engine import place


def grouped(strategy: dict[str, Any], fleet: list[Site]) -> list[tuple[int, str, str]]:
    document = {"decisionStrategy": {"groupStrategy": strategy}}
    verdicts = place(Placement.model_validate(document), fleet, now_s=0.0)
    return [(v.decision_index, v.decision_group, v.site) for v in verdicts if v.chosen]


def numbered(number: int) -> list[Site]:
    return [Site(f"s{index:03d}") for index in range(number)]


def named(group: str, **labels: str) -> dict[str, Any]:
    selector = {"labelSelector": {"matchLabels": labels}}
    return {"groupName": group, "groupClusterSelector": selector}


def sizes(strategy: dict[str, Any], number: int) -> list[int]:
    indexes = [index for index, _, _ in grouped(strategy, numbered(number))]
    return [indexes.count(index) for index in sorted(set(indexes))]


def test_without_a_strategy_there_is_one_nameless_group_in_the_order_of_names() -> None:
    assert grouped({}, [Site("b"), Site("a")]) == [(0, "", "a"), (0, "", "b")]


def test_named_groups_come_first_and_a_site_goes_to_the_first_that_selects_it() -> None:
    strategy = {"decisionGroups": [named("canary", canary="1"), named("gpu", gpu="1")]}
    fleet = [
        Site("a"),
        Site("b", labels={"gpu": "1"}),
        Site("c", labels={"gpu": "1", "canary": "1"}),
    ]
    assert grouped(strategy, fleet) == [(0, "canary", "c"), (1, "gpu", "b"), (2, "", "a")]


def test_a_named_group_that_is_too_large_is_cut_too() -> None:
    strategy = {"decisionGroups": [named("gpu", gpu="1")], "clustersPerDecisionGroup": 2}
    fleet = [Site(name, labels={"gpu": "1"}) for name in "abc"] + [Site("d")]
    assert grouped(strategy, fleet) == [
        (0, "gpu", "a"),
        (0, "gpu", "b"),
        (1, "gpu", "c"),
        (2, "", "d"),
    ]


def test_an_empty_named_group_takes_no_number() -> None:
    strategy = {"decisionGroups": [named("none", no="1")]}
    assert grouped(strategy, [Site("a")]) == [(0, "", "a")]


@pytest.mark.parametrize(
    ("per_group", "number", "expected"),
    [
        (3, 7, [3, 3, 1]),
        (100, 7, [7]),
        ("100%", 7, [7]),
        ("50%", 7, [4, 3]),
        ("30%", 10, [3, 3, 3, 1]),
        ("7%", 100, [8] * 12 + [4]),  # 7 % of 100 is 7.000000000000001 in OCM, and goes up
        ("1%", 3, [1, 1, 1]),
    ],
)
def test_groups_are_cut_by_number_or_percentage(
    per_group: int | str, number: int, expected: list[int]
) -> None:
    assert sizes({"clustersPerDecisionGroup": per_group}, number) == expected


def test_the_percentage_is_of_the_chosen_sites() -> None:
    strategy = {"groupStrategy": {"clustersPerDecisionGroup": "50%"}}
    document = {"numberOfClusters": 4, "decisionStrategy": strategy}
    verdicts = place(Placement.model_validate(document), numbered(20), now_s=0.0)
    assert [v.decision_index for v in verdicts if v.chosen] == [0, 0, 1, 1]
