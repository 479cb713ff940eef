from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from umbel.model.plan import Action
from umbel.model.site import Verdict
from umbel.model.unit import Health, Kind, Sighting, Unknown
from umbel.planning import diff
from umbel.testing import present, unit

GATE = unit("hub/gate", port=1)
NODE = unit("a/supernode", group="g")
WANTED = {u.name: u for u in (GATE, NODE)}


def test_what_is_not_there_is_created() -> None:
    plan = diff.diff("lab", WANTED, {})
    assert [(s.action, s.unit, s.site) for s in plan.steps] == [
        (Action.CREATE, "hub/gate", "hub"),
        (Action.CREATE, "a/supernode", "a"),
    ]
    assert plan.changes == plan.steps


def test_what_is_as_wanted_stays_however_it_does() -> None:
    seen = {GATE.name: present(GATE, Health.FAILING), NODE.name: present(NODE, Health.STARTING)}
    plan = diff.diff("lab", WANTED, seen)
    assert {step.action for step in plan.steps} == {Action.KEEP}
    assert plan.changes == ()


def test_a_changed_definition_is_replaced_and_the_change_is_named() -> None:
    seen = {GATE.name: present(unit("hub/gate", port=2, gone=True)), NODE.name: present(NODE)}
    gate, node = diff.diff("lab", WANTED, seen).steps
    assert gate.action is Action.REPLACE
    assert gate.reason == "its definition changed: gone True → None, port 2 → 1"
    assert node.action is Action.KEEP


def test_a_fingerprint_that_differs_without_a_known_reason_is_still_replaced() -> None:
    older = replace(present(GATE), fingerprint="of an older version")
    step = diff.diff("lab", {GATE.name: GATE}, {GATE.name: older}).steps[0]
    assert (step.action, step.reason) == (Action.REPLACE, "its definition changed: settings")


def test_what_nobody_wants_is_removed_with_the_verdict_as_the_reason() -> None:
    seen = {NODE.name: present(NODE), "b/supernode": present(unit("b/supernode"))}
    verdicts = [Verdict("a", chosen=False, reasons=("no gpu", "tainted"))]
    steps = diff.diff("lab", {}, seen, verdicts).steps
    assert {s.unit: s.reason for s in steps} == {
        "a/supernode": "no gpu; tainted",
        "b/supernode": "not in the document",
    }
    assert {s.action for s in steps} == {Action.REMOVE}


def test_what_nobody_could_see_waits_wanted_or_not() -> None:
    seen = {GATE.name: Unknown("no answer"), "b/supernode": Unknown("no route")}
    plan = diff.diff("lab", {GATE.name: GATE}, seen)
    assert [(s.action, s.unit, s.reason) for s in plan.blind] == [
        (Action.WAIT, "hub/gate", "cannot see it: no answer"),
        (Action.WAIT, "b/supernode", "cannot see it: no route"),
    ]
    assert plan.changes == ()


def test_the_basis_names_what_was_seen_but_not_how_it_does() -> None:
    well: dict[str, Sighting] = {NODE.name: present(NODE), GATE.name: present(GATE)}
    ill = {GATE.name: present(GATE, Health.FAILING), NODE.name: present(NODE, restarts=4)}
    assert diff.digest(well) == diff.digest(ill)
    other = {**well, GATE.name: present(unit("hub/gate", port=2))}
    blind = {**well, GATE.name: Unknown("?")}
    fewer = {GATE.name: present(GATE)}
    different: list[Mapping[str, Sighting]] = [well, other, blind, fewer, {}]
    assert len({diff.digest(seen) for seen in different}) == 5


def test_all_ready_means_there_as_wanted_and_well() -> None:
    seen = {name: present(u) for name, u in WANTED.items()}
    assert diff.all_ready(WANTED, {**seen, "more/supernode": Unknown("?")})
    for bad in (
        present(GATE, Health.STARTING),
        present(GATE, Health.FAILING),
        present(unit("hub/gate", port=2)),
        Unknown("?"),
    ):
        assert not diff.all_ready(WANTED, {**seen, GATE.name: bad})
    assert not diff.all_ready(WANTED, {NODE.name: present(NODE)})


def test_units_are_sorted_as_they_are_started() -> None:
    kinds = [*reversed(Kind)]
    units = {u.name: u for site in ("b", "a") for u in (unit(f"{site}/{k}") for k in kinds)}
    names = [u.name for u in diff.in_order(units)]
    assert names[:4] == ["a/superlink", "b/superlink", "a/gate", "b/gate"]
    assert names[-2:] == ["a/client-exec", "b/client-exec"]


def test_a_fingerprint_does_not_depend_on_the_order_of_settings_but_on_each_value() -> None:
    one = unit("hub/gate", a=1, b=[1, 2])
    assert one.fingerprint == unit("hub/gate", b=[1, 2], a=1).fingerprint
    others = [unit("hub/gate", a=1, b=[2, 1]), unit("hub/gate", a=1), unit("x/gate", a=1, b=[1, 2])]
    assert one.fingerprint not in {other.fingerprint for other in others}
