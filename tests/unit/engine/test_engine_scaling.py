from __future__ import annotations

import pytest

from umbel.engine.engine import GroupUnknown
from umbel.engine.scaling import ScaleInvalid, ScaleTooFar, scaled
from umbel.testing import federation

LISTED = federation(groups=[{"name": "g", "sites": [{"name": "a"}, {"name": "b"}]}])


def test_a_number_of_sites_becomes_another_number() -> None:
    before = federation(sites=3)
    assert scaled(before, "local", 5) == federation(sites=5)
    assert before.spec.groups[0].sites == 3


def test_only_the_named_group_changes() -> None:
    before = federation(groups=[{"name": "a", "sites": 1}, {"name": "b", "sites": 1}])
    assert [g.sites for g in scaled(before, "b", 4).spec.groups] == [1, 4]


def test_a_list_of_sites_is_scaled_by_placement_and_stays_declared() -> None:
    after = scaled(LISTED, "g", 1).spec.groups[0]
    assert after.placement.number_of_clusters == 1
    assert after.sites == LISTED.spec.groups[0].sites


def test_a_list_of_sites_cannot_give_more_than_it_has() -> None:
    with pytest.raises(ScaleTooFar, match="cannot have 3 sites: 2 are declared"):
        scaled(LISTED, "g", 3)


def test_an_unknown_group_is_told_with_the_known_ones() -> None:
    with pytest.raises(GroupUnknown) as told:
        scaled(LISTED, "h", 1)
    assert told.value.hint == "groups: g"


@pytest.mark.parametrize("count", [-1, 1001])
def test_a_number_that_no_document_may_have_is_refused(count: int) -> None:
    with pytest.raises(ScaleInvalid):
        scaled(federation(), "local", count)


@pytest.mark.parametrize("count", [0, 1000])
def test_the_limits_themselves_are_allowed(count: int) -> None:
    assert scaled(federation(), "local", count).spec.groups[0].sites == count
