from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from umbel.diagnosis.canary import SELDOM, Flight, judge
from umbel.flower.fast import guard
from umbel.flower.fast.guard import Way

GOOD: dict[str, Any] = {"least": 4.0, "most": 4.0, "counts": [1, 2, 3, 4]}
ALL = frozenset(Way) - SELDOM


def names(flight: Flight) -> list[str]:
    return [finding.name for finding in judge(flight)]


def test_a_canary_that_comes_back_as_it_should_is_well() -> None:
    assert names(Flight(GOOD, 1, ALL)) == ["Canary"]


@pytest.mark.parametrize(
    ("flight", "fact"),
    [
        (Flight(GOOD | {"least": 3.0}, 1, ALL), "moved by 3, not by 4"),
        (Flight(GOOD | {"most": 5.0}, 1, ALL), "moved by 5, not by 4"),
        (Flight(GOOD | {"counts": [1, 2, 3, 3]}, 1, ALL), "counted [1, 2, 3, 3], not 1 to 4"),
        (Flight(GOOD, 0, ALL), "0 failures were counted, not 1"),
        (Flight(None, 0, ALL, "it hung"), "did not end (it hung)"),
    ],
)
def test_what_went_wrong_is_named(flight: Flight, fact: str) -> None:
    (finding,) = judge(flight)
    assert finding.name == "CanaryDied"
    assert fact in finding.fact


def test_a_way_that_nobody_took_is_named() -> None:
    warning, _ = judge(Flight(GOOD, 1, ALL - {Way.LIGHT}))
    assert warning.name == "WaysNotTaken"
    assert str(Way.LIGHT) in warning.fact


def test_a_federation_that_does_not_come_up_says_nothing_about_flower() -> None:
    assert names(Flight(None, 0, frozenset(), "no space", flew=False)) == ["CanaryStayed"]


def test_a_dead_canary_closes_every_way_until_one_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    guard.distrusted.cache_clear()
    assert guard.open_to(Way.HOLD_LINK)

    guard.note_verdict(lived=False)
    guard.distrusted.cache_clear()
    assert not any(guard.open_to(way) for way in Way)

    guard.note_verdict(lived=True)
    guard.distrusted.cache_clear()
    assert guard.open_to(Way.HOLD_LINK)
    guard.distrusted.cache_clear()
