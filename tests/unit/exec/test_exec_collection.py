from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from umbel.exec.collection import Kept, superfluous

DAY_S = 86_400.0
NOW_S = 1_000 * DAY_S


def kept(key: str, days: float, size: int = 1, *, in_use: bool = False) -> Kept:
    return Kept(key, NOW_S - days * DAY_S, size, in_use)


def test_what_is_used_now_and_then_stays() -> None:
    assert superfluous([kept("a", 0), kept("b", 29)], NOW_S) == []


def test_what_nobody_used_for_a_month_goes() -> None:
    assert superfluous([kept("a", 31), kept("b", 29)], NOW_S) == ["a"]


def test_over_the_quota_the_longest_unused_goes_first() -> None:
    found = [kept("new", 1, 6), kept("old", 20, 6), kept("older", 25, 6)]
    assert superfluous(found, NOW_S, quota=12) == ["older"]
    assert superfluous(found, NOW_S, quota=11) == ["older", "old"]


def test_what_a_process_lives_in_is_never_taken() -> None:
    found = [kept("a", 400, 90, in_use=True), kept("b", 1, 5)]
    assert superfluous(found, NOW_S, quota=10) == ["b"]


environments = st.builds(
    Kept, st.uuids().map(str), st.floats(0, NOW_S), st.integers(0, 50), st.booleans()
)


@given(st.lists(environments, max_size=12), st.integers(0, 200))
def test_no_more_goes_than_must(found: list[Kept], quota: int) -> None:
    gone = superfluous(found, NOW_S, quota=quota)
    assert len(gone) == len(set(gone))
    assert not {k.key for k in found if k.in_use} & set(gone)
    left = [k for k in found if k.key not in gone]
    assert sum(k.size for k in left) <= quota or all(k.in_use for k in left)
