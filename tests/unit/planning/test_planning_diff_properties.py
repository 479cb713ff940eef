from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from umbel.model.plan import Action
from umbel.model.unit import Health, Kind, Present, Sighting, Unit, Unknown
from umbel.planning import diff
from umbel.testing import present

units = st.builds(
    Unit,
    federation=st.just("lab"),
    site=st.sampled_from(["hub", "a", "b", "c"]),
    kind=st.sampled_from(list(Kind)),
    settings=st.dictionaries(st.sampled_from(["port", "users", "warm"]), st.integers(0, 2)),
)
worlds = st.lists(units, max_size=12).map(lambda found: {u.name: u for u in found})
sightings: st.SearchStrategy[Sighting] = st.one_of(
    st.builds(present, units, st.sampled_from(list(Health))),
    st.builds(Unknown, st.text(max_size=8)),
)


def looked_at(found: Mapping[str, Unit]) -> dict[str, Sighting]:
    return {name: present(u) for name, u in found.items()}


@given(worlds, worlds)
def test_following_the_steps_leads_to_what_is_wanted(
    wanted: dict[str, Unit], there: dict[str, Unit]
) -> None:
    result = dict(there)
    for step in diff.diff("lab", wanted, looked_at(there)).steps:
        match step.action:
            case Action.CREATE:
                assert step.unit not in result
                result[step.unit] = wanted[step.unit]
            case Action.REPLACE:
                assert result[step.unit] != wanted[step.unit]
                result[step.unit] = wanted[step.unit]
            case Action.REMOVE:
                del result[step.unit]
            case Action.KEEP:
                assert result[step.unit].fingerprint == wanted[step.unit].fingerprint
            case Action.WAIT:
                raise AssertionError(step)
    assert result == wanted


@given(worlds)
def test_equal_worlds_need_no_change(wanted: dict[str, Unit]) -> None:
    plan = diff.diff("lab", wanted, looked_at(wanted))
    assert plan.changes == ()
    assert len(plan.steps) == len(wanted)


@given(worlds, st.dictionaries(st.sampled_from(["hub/gate", "a/supernode", "x/gate"]), sightings))
def test_what_nobody_could_see_is_never_touched(
    wanted: dict[str, Unit], seen: dict[str, Sighting]
) -> None:
    plan = diff.diff("lab", wanted, seen)
    unseen = {name for name, sighting in seen.items() if isinstance(sighting, Unknown)}
    assert {step.unit for step in plan.blind} == unseen
    assert not unseen & {step.unit for step in plan.changes}


@given(worlds, worlds)
def test_every_unit_has_one_step_with_a_reason(
    wanted: dict[str, Unit], there: dict[str, Unit]
) -> None:
    plan = diff.diff("lab", wanted, looked_at(there))
    assert sorted(step.unit for step in plan.steps) == sorted({*wanted, *there})
    assert all(step.reason for step in plan.steps)


@given(worlds)
def test_the_basis_does_not_depend_on_the_order_of_the_look(there: dict[str, Unit]) -> None:
    seen = looked_at(there)
    backwards = dict(reversed(seen.items()))
    assert diff.digest(seen) == diff.digest(backwards)


@given(worlds)
def test_all_ready_and_no_change_agree_when_all_do_well(wanted: dict[str, Unit]) -> None:
    seen = looked_at(wanted)
    assert diff.all_ready(wanted, seen)
    for name, sighting in seen.items():
        assert isinstance(sighting, Present)
        rest = {n: s for n, s in seen.items() if n != name}
        assert not diff.all_ready(wanted, rest)
