from __future__ import annotations

from collections.abc import Callable

import pytest

from umbel.diagnosis.checks import CHECKS, judge
from umbel.diagnosis.facts import Facts
from umbel.diagnosis.finding import DependsOn, Finding, Severity, causes, has_problem, ok


def problem(name: str, about: str = "", *causes_of_it: DependsOn) -> Finding:
    return Finding(name, Severity.PROBLEM, "bad", "mend it", about, causes_of_it)


def test_what_follows_from_a_problem_is_left_out() -> None:
    cause = problem("DaemonGone")
    consequence = problem("UnitDead", "local", DependsOn("DaemonGone"))
    assert causes([consequence, cause]) == (cause,)


def test_a_consequence_stays_when_its_cause_is_not_there() -> None:
    alone = problem("UnitDead", "local", DependsOn("DaemonGone"))
    assert alone in causes([alone, ok("DaemonGone", "fine")])


def test_a_chain_of_consequences_leaves_the_first_cause() -> None:
    first = problem("PortTaken", "local")
    second = problem("UnitDead", "local", DependsOn("PortTaken"))
    third = problem("DoorClosed", "local", DependsOn("UnitDead"))
    assert causes([third, second, first]) == (first,)


def test_the_trouble_of_one_federation_hides_nothing_of_another() -> None:
    cause = problem("PortTaken", "here")
    other = problem("DoorClosed", "there", DependsOn("PortTaken", "there"))
    assert set(causes([cause, other])) == {cause, other}


def test_a_finding_never_hides_itself() -> None:
    strange = problem("UnitDead", "local", DependsOn("UnitDead"))
    assert causes([strange]) == (strange,)


def test_the_worst_comes_first_and_the_order_is_kept_otherwise() -> None:
    findings = [
        ok("A", ""),
        Finding("B", Severity.NOTE, ""),
        problem("C"),
        Finding("D", Severity.WARNING, ""),
        problem("E"),
    ]
    assert [f.name for f in causes(findings)] == ["C", "E", "D", "B", "A"]


@pytest.mark.parametrize("severity", [Severity.OK, Severity.NOTE, Severity.WARNING])
def test_only_a_problem_is_a_problem(severity: Severity) -> None:
    assert not has_problem([Finding("A", severity, "")])
    assert has_problem([Finding("A", severity, ""), problem("B")])


def test_a_program_reads_plain_values() -> None:
    assert problem("A", "local", DependsOn("B")).as_data() == {
        "name": "A",
        "severity": "problem",
        "fact": "bad",
        "hint": "mend it",
        "about": "local",
    }


def test_a_healthy_machine_has_nothing_but_good_findings(healthy: Callable[..., Facts]) -> None:
    findings = judge(healthy())
    assert {f.severity for f in findings} == {Severity.OK}
    assert len(findings) > len(CHECKS) / 2


def test_a_machine_where_nothing_was_started_has_no_problem(
    nothing_yet: Callable[..., Facts],
) -> None:
    assert {f.severity for f in judge(nothing_yet())} == {Severity.OK}
