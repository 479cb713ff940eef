from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from umbel.identity.partitions import assign, natural

POOL = [f"{group}-{i}" for group in ("a", "lab", "site") for i in (0, 1, 2, 9, 10, 11, 100)]
names = st.lists(st.sampled_from([*POOL, "hub", "site-01"]), max_size=8)
histories = st.lists(names, max_size=5)


def remembered(history: list[list[str]]) -> dict[str, int]:
    known: dict[str, int] = {}
    for generation in history:
        known = assign(generation, known)
    return known


def test_people_count_site_2_before_site_10() -> None:
    assert assign(["site-10", "site-2", "site-1"], {}) == {"site-1": 0, "site-2": 1, "site-10": 2}


def test_scaling_down_and_up_gives_the_old_ids_back() -> None:
    known = assign([f"site-{i}" for i in range(5)], {})
    fewer = assign(["site-0", "site-1"], known)
    assert assign([f"site-{i}" for i in range(5)], fewer) == known


def test_a_gap_is_filled_but_a_remembered_id_is_not() -> None:
    assert assign(["new"], {"gone": 0, "here": 2}) == {"gone": 0, "here": 2, "new": 1}


@settings(max_examples=50)
@given(history=histories, current=names)
def test_known_names_keep_their_ids_for_ever(history: list[list[str]], current: list[str]) -> None:
    known = remembered(history)
    after = assign(current, known)
    assert known.items() <= after.items()
    assert assign([], after) == after
    assert assign(current, after) == after


@settings(max_examples=50)
@given(history=histories)
def test_no_two_names_share_an_id(history: list[list[str]]) -> None:
    known = remembered(history)
    assert len(set(known.values())) == len(known)
    assert sorted(known.values()) == list(range(len(known)))
    assert known.keys() == {name for generation in history for name in generation}


@settings(max_examples=50)
@given(data=st.data(), history=histories, current=names)
def test_the_order_of_names_does_not_matter(
    data: st.DataObject, history: list[list[str]], current: list[str]
) -> None:
    known = remembered(history)
    shuffled = data.draw(st.permutations(current))
    assert assign(shuffled, known) == assign(current, known)


@settings(max_examples=50)
@given(first=st.text(max_size=8), second=st.text(max_size=8))
def test_any_two_names_have_an_order(first: str, second: str) -> None:
    assert (natural(first) == natural(second)) == (first == second)
    assert (natural(first) < natural(second)) or (natural(second) <= natural(first))
