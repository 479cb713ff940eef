from __future__ import annotations

import pytest

from umbel.model.placement import Placement
from umbel.model.site import Site, Verdict
from umbel.placement.cel import CelInvalid
from umbel.placement.engine import SiteNamedTwice, ordinal, place


def test_the_chosen_come_first_and_the_others_by_name() -> None:
    selector = {"labelSelector": {"matchLabels": {"gpu": "true"}}}
    document = {"numberOfClusters": 1, "predicates": [{"requiredClusterSelector": selector}]}
    fleet = [
        Site("d", labels={"gpu": "true"}),
        Site("b", labels={"gpu": "true"}),
        Site("c"),
        Site("a"),
    ]
    assert place(Placement.model_validate(document), fleet, now_s=0.0, previous=["d"]) == (
        Verdict("d", True, ("chosen: score 200 = Steady 100x1 + Balance 100x1",), score=200),
        Verdict("a", False, ("label gpu=true is missing",)),
        Verdict("b", False, ("ranked 2nd, only 1 wanted",), score=100),
        Verdict("c", False, ("label gpu=true is missing",)),
    )


def test_no_sites_give_no_verdicts() -> None:
    assert place(Placement(), [], now_s=0.0) == ()


def test_zero_wanted_sites_are_none() -> None:
    (verdict,) = place(Placement(number_of_clusters=0), [Site("a")], now_s=0.0)
    assert verdict.reasons == ("ranked 1st, none wanted",)


def test_fewer_sites_than_wanted_are_all_taken() -> None:
    verdicts = place(Placement(number_of_clusters=9), [Site("a"), Site("b")], now_s=0.0)
    assert [v.chosen for v in verdicts] == [True, True]


def test_two_sites_of_one_name_are_refused() -> None:
    with pytest.raises(SiteNamedTwice, match="U152 two sites are called 'a'"):
        place(Placement(), [Site("a"), Site("b"), Site("a")], now_s=0.0)


def test_an_expression_that_does_not_compile_ends_the_placement() -> None:
    selector = {"celSelector": {"celExpressions": ["1 =="]}}
    placement = Placement.model_validate({"predicates": [{"requiredClusterSelector": selector}]})
    with pytest.raises(CelInvalid):
        place(placement, [], now_s=0.0)


def test_a_cel_selector_is_asked_after_labels() -> None:
    selector = {
        "labelSelector": {"matchLabels": {"gpu": "true"}},
        "celSelector": {"celExpressions": ["managedCluster.metadata.name.startsWith('x')"]},
    }
    placement = Placement.model_validate({"predicates": [{"requiredClusterSelector": selector}]})
    fleet = [Site(name, labels={"gpu": gpu}) for name, gpu in (("x", "true"), ("y", "true"))]
    verdicts = place(placement, [*fleet, Site("z")], now_s=0.0)
    assert [(v.site, v.chosen, v.reasons[0]) for v in verdicts[1:]] == [
        ("y", False, "CEL `managedCluster.metadata.name.startsWith('x')` is false"),
        ("z", False, "label gpu=true is missing"),
    ]


@pytest.mark.parametrize(
    ("number", "word"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (112, "112th"), (121, "121st")],
)
def test_ordinals(number: int, word: str) -> None:
    assert ordinal(number) == word
