from __future__ import annotations

from collections.abc import Iterator

import pytest

from umbel.flower.fast import guard
from umbel.flower.fast.guard import Way


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[str, ...]]]:
    """A copy of the known sources, to change."""
    changed = dict(guard.KNOWN)
    monkeypatch.setattr(guard, "KNOWN", changed)
    guard.moved.cache_clear()
    yield changed
    guard.moved.cache_clear()


@pytest.mark.parametrize("way", list(Way))
def test_the_installed_flower_is_the_known_one(way: Way) -> None:
    assert guard.moved(way) == ()
    assert guard.open_to(way)


def test_every_module_that_a_way_touches_is_known() -> None:
    assert set(guard.TOUCHED) == set(Way)
    assert {name for names in guard.TOUCHED.values() for name in names} <= set(guard.KNOWN)


def test_every_known_module_is_touched_by_a_way() -> None:
    assert set(guard.KNOWN) <= {name for names in guard.TOUCHED.values() for name in names}


@pytest.mark.parametrize("name", sorted(guard.KNOWN))
def test_another_source_switches_off_just_the_ways_that_touch_it(
    known: dict[str, tuple[str, ...]], name: str
) -> None:
    known[name] = ("0" * 16,)
    off = {way for way in Way if not guard.open_to(way)}
    assert off == {way for way in Way if name in guard.TOUCHED[way]}
    assert all(guard.moved(way) == (name,) for way in off)


def test_a_module_that_is_gone_has_no_hash() -> None:
    assert guard.source_hash("umbel.flower.fast.nothing") == ""
    assert len(guard.source_hash("umbel.flower.fast.guard")) == 16
