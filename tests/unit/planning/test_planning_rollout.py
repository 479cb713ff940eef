from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from umbel.model.kubernetes import Rollout
from umbel.planning.rollout import Candidate, at_once, next_course

rollouts = st.builds(
    Rollout,
    max_concurrent=st.one_of(st.integers(1, 5), st.integers(1, 100).map("{}%".format)),
    max_failures=st.integers(0, 3),
    deadline_seconds=st.just(600),
    soak_seconds=st.sampled_from([0, 30]),
)


@st.composite
def fleets(draw: st.DrawFn) -> list[Candidate]:
    size = draw(st.integers(0, 8))
    return [
        Candidate(
            f"site-{number}",
            draw(st.integers(0, 2)),
            current=draw(st.booleans()),
            healthy=draw(st.booleans()),
            since_s=draw(st.sampled_from([0.0, 10.0, 100.0, 700.0])),
        )
        for number in range(size)
    ]


def site(name: str, batch: int = 0, **more: float) -> Candidate:
    """Describe a site that runs the former version and does well."""
    usual = Candidate(name, batch, current=False, healthy=True, since_s=9999)
    return replace(usual, **more)  # type: ignore[arg-type]


def given_now(name: str, batch: int = 0, *, healthy: bool, since_s: float = 1.0) -> Candidate:
    return Candidate(name, batch, current=True, healthy=healthy, since_s=since_s)


ONE = Rollout(max_concurrent=1)


def test_a_fleet_as_wanted_is_done() -> None:
    assert next_course([given_now("a", healthy=True)], ONE).state == "done"
    assert next_course([], ONE).state == "done"


def test_a_batch_has_as_many_sites_as_may_change_at_once() -> None:
    fleet = [site(name) for name in "dcba"]
    assert next_course(fleet, ONE).update == ("a",)
    assert next_course(fleet, Rollout(max_concurrent="50%")).update == ("a", "b")


def test_a_site_that_is_not_online_yet_takes_up_room() -> None:
    fleet = [given_now("a", healthy=False), site("b"), site("c")]
    assert next_course(fleet, ONE).update == ()
    assert next_course(fleet, Rollout(max_concurrent=2)).update == ("b",)


def test_a_later_group_waits_until_the_earlier_one_is_well() -> None:
    wide = Rollout(max_concurrent=9)
    waiting = [given_now("a", 0, healthy=False), site("b", 1)]
    assert next_course(waiting, wide).update == ()
    well = [given_now("a", 0, healthy=True), site("b", 1)]
    assert next_course(well, wide).update == ("b",)


def test_a_batch_soaks_before_the_next() -> None:
    slow = Rollout(max_concurrent=1, soak_seconds=60)
    assert next_course([given_now("a", healthy=True, since_s=30), site("b")], slow).update == ()
    ripe = [given_now("a", healthy=True, since_s=61), site("b")]
    assert next_course(ripe, slow).update == ("b",)


def test_one_failure_too_many_turns_everybody_back() -> None:
    fleet = [
        given_now("a", healthy=False, since_s=601),
        given_now("b", healthy=True),
        site("c"),
    ]
    course = next_course(fleet, ONE)
    assert (course.state, course.update) == ("halted", ())
    assert (course.failed, course.revert) == (("a",), ("a", "b"))


def test_a_failure_that_is_allowed_holds_nobody_up() -> None:
    fleet = [given_now("a", healthy=False, since_s=601), site("b")]
    course = next_course(fleet, Rollout(max_concurrent=1, max_failures=1))
    assert (course.update, course.failed, course.state) == (("b",), ("a",), "progressing")


@given(st.integers(1, 100), st.integers(0, 2000))
def test_a_percentage_is_rounded_up_and_never_nothing(percent: int, total: int) -> None:
    found = at_once(Rollout(max_concurrent=f"{percent}%"), total)
    assert found == max(1, math.ceil(total * percent / 100))


@given(fleets(), rollouts)
def test_only_sites_of_the_first_waiting_group_are_updated(
    fleet: list[Candidate], rollout: Rollout
) -> None:
    course = next_course(fleet, rollout)
    by_name = {one.site: one for one in fleet}
    waiting = [one for one in fleet if not one.current]
    for name in course.update:
        assert not by_name[name].current
        assert by_name[name].batch == min(one.batch for one in waiting)


@given(fleets(), rollouts)
def test_never_do_more_sites_change_than_may(fleet: list[Candidate], rollout: Rollout) -> None:
    course = next_course(fleet, rollout)
    changing = [one for one in fleet if one.current and not one.healthy]
    under_way = len(changing) - len(course.failed)
    room = at_once(rollout, len(fleet))
    assert len(course.update) <= max(0, room - under_way)


@given(fleets(), rollouts)
def test_a_halt_updates_nobody_and_turns_back_all_that_changed(
    fleet: list[Candidate], rollout: Rollout
) -> None:
    course = next_course(fleet, rollout)
    assert (course.state == "halted") == (len(course.failed) > rollout.max_failures)
    if course.state == "halted":
        assert course.update == ()
        assert set(course.revert) == {one.site for one in fleet if one.current}
    else:
        assert course.revert == ()


@given(fleets(), rollouts)
def test_when_every_updated_site_is_well_the_rollout_ends(
    fleet: list[Candidate], rollout: Rollout
) -> None:
    """Whoever is given the version is online and has soaked a moment later: nobody is left out."""
    now = [replace(one, healthy=True, since_s=9999) for one in fleet]
    for _ in range(len(fleet) + 1):
        course = next_course(now, rollout)
        now = [replace(one, current=one.current or one.site in course.update) for one in now]
        if course.state == "done":
            break
        assert course.update
    assert next_course(now, rollout).state == "done"
    assert all(one.current for one in now)


def test_a_site_that_came_and_does_not_start_holds_up_no_others() -> None:
    came = site("c", current=True, healthy=False, new=True, since_s=9999)
    course = next_course([site("a"), site("b"), came], Rollout(max_concurrent=1))
    assert (course.update, course.failed, course.revert) == (("a",), (), ())
    done = [replace(site(name), current=True) for name in ("a", "b")]
    assert next_course([*done, came], Rollout()).state == "done"
