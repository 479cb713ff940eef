from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from umbel.model.placement import Placement
from umbel.model.site import Site, Verdict
from umbel.placement.engine import NO_LOAD, place


def exactly(name: str, weight: int = 1) -> dict[str, Any]:
    configuration = {"scoreCoordinate": {"builtIn": name}, "weight": weight}
    return {"prioritizerPolicy": {"mode": "Exact", "configurations": [configuration]}}


def published(resource: str, score: str, weight: int = 1) -> dict[str, Any]:
    coordinate = {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}}
    configuration = {"scoreCoordinate": coordinate, "weight": weight}
    return {"prioritizerPolicy": {"mode": "Exact", "configurations": [configuration]}}


def scores(
    document: dict[str, Any],
    sites: Sequence[Site],
    *,
    previous: Sequence[str] = (),
    load: Mapping[str, int] = NO_LOAD,
) -> dict[str, int]:
    return {v.site: v.score for v in verdicts(document, sites, previous=previous, load=load)}


def verdicts(
    document: dict[str, Any],
    sites: Sequence[Site],
    *,
    previous: Sequence[str] = (),
    load: Mapping[str, int] = NO_LOAD,
) -> tuple[Verdict, ...]:
    placement = Placement.model_validate(document)
    return place(placement, sites, now_s=1_000.0, previous=previous, load=load)


def sites(*names: str) -> list[Site]:
    return [Site(name) for name in names]


def test_steady_gives_a_hundred_to_who_is_in() -> None:
    assert scores(exactly("Steady"), sites("a", "b"), previous=["b"]) == {"a": 0, "b": 100}


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ({}, {"a": 100, "b": 100}),
        ({"a": 1}, {"a": -100, "b": 100}),
        ({"a": 1, "b": 2}, {"a": 0, "b": -100}),
        ({"a": 1, "b": 3}, {"a": 32, "b": -100}),  # cut to 16 first, then doubled
        ({"a": 2, "b": 3}, {"a": -32, "b": -100}),
        ({"a": 1, "elsewhere": 4}, {"a": 50, "b": 100}),
    ],
)
def test_balance_compares_with_the_fullest_site(
    load: dict[str, int], expected: dict[str, int]
) -> None:
    assert scores(exactly("Balance"), sites("a", "b"), load=load) == expected


def test_resources_go_from_the_least_to_the_most() -> None:
    fleet = [
        Site("a", allocatable_cpu=1.0, capacity_cpu=9.0),
        Site("b", allocatable_cpu=2.0, capacity_cpu=9.0),
        Site("c", allocatable_cpu=4.0, capacity_cpu=9.0),
        Site("d"),
        Site("e", allocatable_cpu=99.0),
    ]
    assert scores(exactly("ResourceAllocatableCPU"), fleet) == {
        "a": -100,
        "b": -33,
        "c": 100,
        "d": 0,
        "e": 0,  # OCM wants allocatable and capacity
    }


def test_equal_resources_are_all_the_most() -> None:
    fleet = [Site(n, allocatable_memory=8, capacity_memory=8) for n in "ab"]
    assert scores(exactly("ResourceAllocatableMemory"), fleet) == {"a": 100, "b": 100}


def test_published_scores_count_as_they_are_until_they_are_too_old() -> None:
    fleet = [
        Site("a", scores={"energy/green": 70}),
        Site("b", scores={"energy/green": -20}, scores_until_s={"energy": 1_000.0}),
        Site("c", scores={"energy/green": 90}, scores_until_s={"energy": 999.0}),
        Site("d", scores={"other/green": 90}),
    ]
    found = scores(published("energy", "green", weight=2), fleet)
    assert found == {"a": 140, "b": -40, "c": 0, "d": 0}


def test_a_negative_weight_turns_the_order_around() -> None:
    fleet = [Site("a", scores={"price/eur": 9}), Site("b", scores={"price/eur": 3})]
    document = {**published("price", "eur", weight=-1), "numberOfClusters": 1}
    assert [v.site for v in verdicts(document, fleet) if v.chosen] == ["b"]


def test_additive_keeps_steady_and_balance() -> None:
    (verdict,) = verdicts({}, sites("a"), previous=["a"], load={"b": 1})
    assert verdict.reasons == ("chosen: score 200 = Steady 100x1 + Balance 100x1",)


def test_additive_lets_a_default_be_weighed_anew_or_switched_off() -> None:
    configurations = [
        {"scoreCoordinate": {"builtIn": "Steady"}, "weight": 3},
        {"scoreCoordinate": {"builtIn": "Balance"}, "weight": 0},
    ]
    document = {"prioritizerPolicy": {"configurations": configurations}}
    (verdict,) = verdicts(document, sites("a"), previous=["a"])
    assert verdict.reasons == ("chosen: score 300 = Steady 100x3",)


def test_exact_without_configurations_scores_nothing() -> None:
    (verdict,) = verdicts({"prioritizerPolicy": {"mode": "Exact"}}, sites("a"))
    assert verdict.reasons == ("chosen: score 0, as nothing is scored",)


def test_ties_go_by_name() -> None:
    found = verdicts({"numberOfClusters": 2}, sites("c", "a", "b"))
    assert [v.site for v in found if v.chosen] == ["a", "b"]
    assert found[-1] == Verdict("c", False, ("ranked 3rd, only 2 wanted",), score=100)


def test_resources_are_compared_among_feasible_sites_only() -> None:
    fleet = [
        Site("a", labels={"in": "1"}, allocatable_cpu=2.0, capacity_cpu=9.0),
        Site("b", labels={"in": "1"}, allocatable_cpu=4.0, capacity_cpu=9.0),
        Site("c", allocatable_cpu=400.0, capacity_cpu=900.0),
    ]
    selector = {"labelSelector": {"matchLabels": {"in": "1"}}}
    document = {
        **exactly("ResourceAllocatableCPU"),
        "predicates": [{"requiredClusterSelector": selector}],
    }
    assert scores(document, fleet) == {"a": -100, "b": 100, "c": 0}
