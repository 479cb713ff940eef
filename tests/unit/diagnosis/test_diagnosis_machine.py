from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from umbel.diagnosis import flower, machine
from umbel.diagnosis.facts import Facts, FlowerSeen, Moment, Unseen
from umbel.diagnosis.finding import Severity, causes
from umbel.diagnosis.gather.machine import read_available

Builds = Callable[..., Facts]


def test_an_old_python_is_a_problem(healthy: Builds) -> None:
    facts = healthy()
    (found,) = machine.python(replace(facts, machine=replace(facts.machine, python=(3, 10, 9))))
    assert (found.name, found.severity) == ("PythonTooOld", Severity.PROBLEM)
    assert "3.10.9" in found.fact


def test_another_system_than_linux_is_a_problem(healthy: Builds) -> None:
    facts = healthy()
    (found,) = machine.python(replace(facts, machine=replace(facts.machine, platform="darwin")))
    assert found.name == "PlatformUnsupported"


@pytest.mark.parametrize(
    ("limit", "severity"),
    [
        (64, Severity.PROBLEM),
        (256, Severity.WARNING),
        (1023, Severity.WARNING),
        (1024, Severity.OK),
        (0, Severity.OK),
    ],
)
def test_few_open_files_are_told(healthy: Builds, limit: int, severity: Severity) -> None:
    facts = healthy()
    (found,) = machine.open_files(replace(facts, machine=replace(facts.machine, open_files=limit)))
    assert found.severity is severity


@pytest.mark.parametrize(
    ("free", "severity"),
    [
        (None, Severity.NOTE),
        (100 << 20, Severity.PROBLEM),
        (600 << 20, Severity.WARNING),
        (2 << 30, Severity.OK),
    ],
)
def test_little_memory_is_told(healthy: Builds, free: int | None, severity: Severity) -> None:
    facts = healthy()
    (found,) = machine.memory(replace(facts, machine=replace(facts.machine, memory_free=free)))
    assert found.severity is severity


def test_a_clock_behind_our_own_files_is_a_problem(healthy: Builds) -> None:
    facts = healthy()
    now = facts.machine.now
    moments = (Moment("old", now - timedelta(days=1)), Moment("audit", now + timedelta(hours=1)))
    (found,) = machine.clock(replace(facts, moments=moments))
    assert (found.name, found.severity) == ("ClockBehind", Severity.PROBLEM)
    assert "1:00:00" in found.fact
    assert "audit" in found.fact


def test_a_file_that_is_being_written_does_not_make_the_clock_wrong(healthy: Builds) -> None:
    facts = healthy()
    moments = (Moment("log", facts.machine.now + timedelta(seconds=3)),)
    (found,) = machine.clock(replace(facts, moments=moments))
    assert found.severity is Severity.OK


def test_a_clock_that_nobody_keeps_is_worth_a_note(healthy: Builds) -> None:
    facts = healthy()
    (found,) = machine.clock(replace(facts, machine=replace(facts.machine, keeps_time=False)))
    assert found.severity is Severity.NOTE


def test_the_free_memory_is_read_from_the_kernels_words() -> None:
    text = "MemTotal:       24684 kB\nMemFree:  100 kB\nMemAvailable:    2048 kB\n"
    assert read_available(text) == 2048 * 1024
    assert read_available("MemTotal: 1 kB\n") is None


@pytest.mark.parametrize(
    ("seen", "names"),
    [
        (FlowerSeen("", Unseen("not there")), ["FlowerMissing"]),
        (FlowerSeen("1.39.0", ("no flag",)), ["FlowerUnsupported"]),
        (FlowerSeen("1.41.0", ("there is no route /x",)), ["FlowerDiffers", "Flower"]),
        (FlowerSeen("1.41.0", Unseen("No module named x")), ["FlowerSelfTestFailed", "Flower"]),
        (FlowerSeen("1.40.2", ()), ["Flower", "FlowerSelfTest"]),
    ],
)
def test_flower_is_judged_and_only_the_cause_is_told(
    healthy: Builds, seen: FlowerSeen, names: list[str]
) -> None:
    facts = healthy(flower=seen)
    found = causes([*flower.version(facts), *flower.selftest(facts)])
    assert [f.name for f in found] == names


def test_what_differs_in_flower_is_named(healthy: Builds) -> None:
    moved = tuple(f"there is no route /v1/fleet/{number}" for number in range(9))
    (found,) = flower.selftest(healthy(flower=FlowerSeen("1.41.0", moved)))
    assert "/v1/fleet/0" in found.fact
    assert "4 more" in found.fact
