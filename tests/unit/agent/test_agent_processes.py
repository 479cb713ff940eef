from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from umbel.agent import processes
from umbel.agent.processes import Process, children_of, identify, tree

STAT = (
    "{pid} ({name}) {state} 41 10 10 0 -1 4194560 3 0 0 0 5 6 0 0 20 0 1 0 "
    "{started} 100 200 18446744073709551615"
)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let `/proc` be a folder."""

    def elsewhere(*parts: str) -> Path:
        path = Path(*parts)
        return tmp_path / path.relative_to("/proc") if path.is_relative_to("/proc") else path

    monkeypatch.setattr(processes, "Path", elsewhere)
    return tmp_path


def put(proc: Path, pid: int, *, name: str = "sleep", state: str = "S", started: int = 7) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    text = STAT.format(pid=pid, name=name, state=state, started=started)
    (proc / str(pid) / "stat").write_text(text + "\n")


def test_a_process_is_its_number_and_the_time_it_began(proc: Path) -> None:
    put(proc, 42, started=1234)
    assert identify(42) == Process(42, 1234)
    assert identify(43) is None


@pytest.mark.parametrize("name", ["a b", "a) S 1", "((", ")", "1 2 3) Z 9"])
def test_a_name_with_brackets_and_blanks_does_not_confuse(proc: Path, name: str) -> None:
    put(proc, 42, name=name, started=99)
    assert identify(42) == Process(42, 99)
    assert Process(42, 99).alive()


def test_another_process_of_the_same_number_is_not_it(proc: Path) -> None:
    put(proc, 42, started=8)
    assert Process(42, 8).alive()
    assert not Process(42, 7).alive()


def test_a_zombie_does_not_live(proc: Path) -> None:
    put(proc, 42, state="Z")
    assert not Process(42, 7).alive()


def test_a_signal_to_what_is_gone_is_silent() -> None:
    Process(2**22 + 1, 1).send(signal.SIGKILL)


def test_a_signal_meant_for_a_former_process_does_not_reach_the_present_one() -> None:
    mine = identify(os.getpid())
    assert mine is not None
    Process(mine.pid, mine.started - 1).send(signal.SIGKILL)


def test_a_tree_holds_its_root_and_finds_the_way_down_from_the_parent() -> None:
    mine = identify(os.getpid())
    assert mine in tree({os.getpid()})
    assert mine in tree({os.getppid()})


def test_what_has_no_process_has_no_tree_and_no_children() -> None:
    assert tree({2**22 + 1}) == []
    assert children_of(2**22 + 1) == set()
