from __future__ import annotations

from collections import Counter
from typing import Any

from umbel.model.placement import Placement
from umbel.model.site import Site, Verdict
from umbel.placement.engine import place

HARD = "DoNotSchedule"


def spread(
    fleet: list[Site], *constraints: dict[str, Any], wanted: int | None = None
) -> tuple[Verdict, ...]:
    document: dict[str, Any] = {"spreadPolicy": {"spreadConstraints": list(constraints)}}
    if wanted is not None:
        document["numberOfClusters"] = wanted
    return place(Placement.model_validate(document), fleet, now_s=0.0)


def over(key: str, *, skew: int = 1, when: str = "ScheduleAnyway", kind: str = "Label") -> Any:
    return {
        "topologyKey": key,
        "topologyKeyType": kind,
        "maxSkew": skew,
        "whenUnsatisfiable": when,
    }


def zones(**numbers: int) -> list[Site]:
    return [
        Site(f"{zone}{index}", labels={"zone": zone})
        for zone, number in numbers.items()
        for index in range(number)
    ]


def chosen(verdicts: tuple[Verdict, ...]) -> list[str]:
    return [v.site for v in verdicts if v.chosen]


def why(verdicts: tuple[Verdict, ...], name: str) -> tuple[str, ...]:
    return next(v.reasons for v in verdicts if v.site == name)


def test_without_constraints_the_best_names_win() -> None:
    assert chosen(spread(zones(a=3, b=3), wanted=3)) == ["a0", "a1", "a2"]


def test_sites_are_taken_evenly() -> None:
    found = spread(zones(a=5, b=5, c=5), over("zone"), wanted=6)
    assert chosen(found) == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert why(found, "a2") == ("passed over to stay even over label zone",)
    assert why(found, "c2") == ("ranked 13th, only 6 wanted",)


def test_claims_can_be_spread_over() -> None:
    fleet = [Site(f"{p}{i}", claims={"cloud": p}) for p in ("aws", "gcp") for i in range(2)]
    assert chosen(spread(fleet, over("cloud", kind="Claim"), wanted=2)) == ["aws0", "gcp0"]


def test_a_greater_skew_lets_a_zone_run_ahead() -> None:
    assert chosen(spread(zones(a=5, b=5), over("zone", skew=3, when=HARD), wanted=3)) == [
        "a0",
        "a1",
        "a2",
    ]


def test_do_not_schedule_stops_at_the_skew() -> None:
    found = spread(zones(a=5, b=1), over("zone", when=HARD))
    assert chosen(found) == ["a0", "a1", "b0"]
    assert why(found, "a2") == (
        "spread over label zone: 'a' has 2, the fewest elsewhere is 1, maxSkew 1",
    )


def test_schedule_anyway_goes_on_and_says_so() -> None:
    found = spread(zones(a=5, b=1), over("zone"), wanted=4)
    assert chosen(found) == ["a0", "a1", "a2", "b0"]
    assert why(found, "a2")[1].startswith("not spread evenly: spread over label zone: 'a' has 2")
    assert len(why(found, "a1")) == 1


def test_do_not_schedule_leaves_out_who_has_no_place() -> None:
    found = spread([*zones(b=2), Site("a")], over("zone", when=HARD))
    assert chosen(found) == ["b0", "b1"]
    assert why(found, "a") == ("label zone is missing, which sites are spread over",)


def test_schedule_anyway_takes_who_has_no_place_last() -> None:
    fleet = [*zones(b=2), Site("a")]
    assert chosen(spread(fleet, over("zone"), wanted=2)) == ["b0", "b1"]
    assert chosen(spread(fleet, over("zone"))) == ["a", "b0", "b1"]


def test_the_first_constraint_counts_more() -> None:
    fleet = [
        Site("a", labels={"zone": "1", "rack": "1"}),
        Site("b", labels={"zone": "1", "rack": "2"}),
        Site("c", labels={"zone": "2", "rack": "1"}),
    ]
    assert chosen(spread(fleet, over("zone"), over("rack"), wanted=2)) == ["a", "c"]
    assert chosen(spread(fleet, over("rack"), over("zone"), wanted=2)) == ["a", "b"]


def test_a_hard_and_a_soft_constraint_hold_together() -> None:
    fleet = [
        Site(f"{zone}{rack}{i}", labels={"zone": zone, "rack": f"{zone}{rack}"})
        for zone in "ab"
        for rack in "xy"
        for i in range(4)
    ]
    found = chosen(spread(fleet, over("zone", when=HARD), over("rack"), wanted=8))
    assert Counter(name[:2] for name in found) == {"ax": 2, "ay": 2, "bx": 2, "by": 2}


def test_every_place_of_its_own_is_never_a_problem() -> None:
    fleet = [Site(f"s{i}", labels={"host": f"h{i}"}) for i in range(50)]
    assert len(chosen(spread(fleet, over("host", when=HARD)))) == 50
