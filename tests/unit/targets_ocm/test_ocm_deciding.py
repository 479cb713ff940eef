from __future__ import annotations

from typing import Any

import pytest

from umbel.targets.ocm.deciding import LONGEST_S, QUIET_S, Deciding


class Hub:
    """Lists of decisions as OCM writes them, and a clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.deciding = Deciding(clock=lambda: self.now_s)
        self.lists: dict[str, dict[str, Any]] = {}
        self.chosen: int | None = None
        self._version = 0

    def write(self, name: str, *clusters: str) -> None:
        self._version += 1
        meta = {"name": name, "resourceVersion": str(self._version)}
        made = [{"clusterName": cluster} for cluster in clusters]
        self.lists[name] = {"metadata": meta, "status": {"decisions": made}}

    def read(self, *running: str) -> list[str]:
        found = self.deciding.read("p", list(self.lists.values()), self.chosen, running)
        assert all(verdict.chosen for verdict in found)
        return [verdict.site for verdict in found]


@pytest.fixture
def hub() -> Hub:
    return Hub()


def test_what_is_found_whole_at_first_counts_at_once(hub: Hub) -> None:
    hub.write("one", "a", "b")
    hub.chosen = 2
    assert hub.read() == ["a", "b"]
    assert hub.deciding.again_s == 0


def test_new_clusters_count_when_the_lists_are_quiet(hub: Hub) -> None:
    assert hub.read() == []
    hub.write("one", "a")
    assert hub.read() == []
    hub.now_s += QUIET_S / 2
    hub.write("two", "b")
    hub.chosen = 2
    assert hub.read() == []
    assert hub.deciding.again_s == QUIET_S
    hub.now_s += QUIET_S
    assert hub.read() == ["a", "b"]
    assert hub.deciding.again_s == 0


def test_a_cluster_that_moves_from_list_to_list_is_not_let_go(hub: Hub) -> None:
    hub.write("one", "b", "c")
    hub.write("two", "d")
    hub.chosen = 3
    assert hub.read("b", "c", "d") == ["b", "c", "d"]
    hub.write("one", "a", "b")  # c moves on to the second list
    assert hub.read("b", "c", "d") == ["b", "c", "d"]
    hub.write("two", "c", "d")
    hub.chosen = 4
    hub.now_s += QUIET_S
    assert hub.read("b", "c", "d") == ["b", "c", "d"]
    hub.now_s += QUIET_S
    assert hub.read("b", "c", "d") == ["a", "b", "c", "d"]


def test_a_cluster_that_is_not_chosen_any_more_goes_when_the_lists_are_quiet(hub: Hub) -> None:
    hub.write("one", "a", "b")
    hub.chosen = 2
    assert hub.read("a", "b") == ["a", "b"]
    hub.write("one", "a")
    assert hub.read("a", "b") == ["a", "b"]
    hub.now_s += QUIET_S
    hub.chosen = 1
    assert hub.read("a", "b") == ["a"]


def test_lists_that_do_not_add_up_are_waited_for_but_not_for_ever(hub: Hub) -> None:
    hub.write("one", "a")
    hub.chosen = 2
    assert hub.read("a", "b") == ["a", "b"]
    hub.now_s += 2 * QUIET_S
    assert hub.read("a", "b") == ["a", "b"]
    assert 0 < hub.deciding.again_s <= LONGEST_S
    hub.now_s += LONGEST_S
    assert hub.read("a", "b") == ["a"]


def test_a_fleet_that_grows_slowly_is_waited_for_until_ocm_says_how_many(hub: Hub) -> None:
    assert hub.read() == []
    hub.write("one", "a")
    hub.now_s += 2 * QUIET_S
    assert hub.read() == []
    hub.write("two", "b")
    hub.chosen = 2
    assert hub.read() == []
    hub.now_s += QUIET_S
    assert hub.read() == ["a", "b"]


def test_placements_are_watched_apart(hub: Hub) -> None:
    hub.write("one", "a")
    hub.chosen = 1
    assert hub.read() == ["a"]
    hub.deciding.read("other", [], None, [])
    hub.write("one", "a", "b")
    assert hub.read("a") == ["a"]
    assert [v.site for v in hub.deciding.read("other", [], None, [])] == []


def test_a_cluster_that_another_group_takes_over_is_never_without_one(hub: Hub) -> None:
    hub.write("one", "a", "b")
    hub.chosen = 2
    assert hub.read("a", "b") == ["a", "b"]
    read = hub.deciding.read
    assert read("other", [], 0, []) == ()
    hub.write("one", "a")  # b has another label now, and OCM writes one list after the other
    hub.chosen = 1
    assert hub.read("a", "b") == ["a", "b"]
    hub.now_s += QUIET_S / 2
    meta = {"name": "two", "resourceVersion": "9"}
    given = {"metadata": meta, "status": {"decisions": [{"clusterName": c} for c in "bc"]}}
    assert [v.site for v in read("other", [given], 2, [])] == ["b"]  # c is new: it waits
    hub.now_s += QUIET_S / 2
    assert hub.read("a", "b") == ["a"]
    assert [v.site for v in read("other", [given], 2, [])] == ["b"]
    hub.now_s += QUIET_S
    assert [v.site for v in read("other", [given], 2, ["b"])] == ["b", "c"]


def test_a_group_that_is_gone_is_not_waited_for(hub: Hub) -> None:
    assert hub.read() == []
    hub.write("one", "a")
    assert hub.read() == []
    assert hub.deciding.again_s > 0
    hub.now_s += LONGEST_S  # and nobody reads its lists again
    assert hub.deciding.again_s == 0
