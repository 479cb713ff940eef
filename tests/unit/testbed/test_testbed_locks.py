"""One command at a time on a test bed, one set of nodes on a machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from testbed import locks
from testbed.locks import Busy, Holder, NodesElsewhere
from testbed.processes import Record, born

NOBODY = (2**22 + 1, 1)  # no process has such a number
ME = (os.getpid(), born(os.getpid()) or 0)


@pytest.fixture
def register(tmp_path: Path) -> Path:
    return tmp_path / "register.json"


def written(register: Path, state: Path, maker: tuple[int, int], *, lasting: bool) -> None:
    register.write_text(json.dumps(Holder(str(state), *maker, lasting).__dict__))


def running(state: Path) -> None:
    """Let this very process be one of the test bed's."""
    folder = state / "processes"
    folder.mkdir(parents=True)
    (folder / "etcd.json").write_text(json.dumps(Record("etcd", *ME, (), {}).__dict__))


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    with (
        locks.held(tmp_path / "lock", "it"),
        pytest.raises(Busy, match="at work on it"),
        locks.held(tmp_path / "lock", "it"),
    ):
        pass
    with locks.held(tmp_path / "lock", "it"):
        pass


def test_two_folders_have_two_locks(tmp_path: Path) -> None:
    assert locks.of_state(tmp_path / "a") != locks.of_state(tmp_path / "b")
    assert locks.of_state(tmp_path / "a") == locks.of_state(tmp_path / "b" / ".." / "a")


def test_nodes_are_taken_given_back_and_taken_by_the_next(tmp_path: Path, register: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert locks.take_nodes(first, lasting=True, register=register) is None
    assert locks.has_nodes(first, register)
    assert not locks.has_nodes(second, register)
    with pytest.raises(NodesElsewhere, match="first"):
        locks.take_nodes(second, lasting=True, register=register)
    locks.give_nodes_back(register)
    assert locks.take_nodes(second, lasting=True, register=register) is None


def test_nodes_of_a_bed_that_should_last_are_left_alone(tmp_path: Path, register: Path) -> None:
    standing = tmp_path / "standing"
    running(standing)
    written(register, standing, NOBODY, lasting=True)
    with pytest.raises(NodesElsewhere):
        locks.take_nodes(tmp_path / "mine", lasting=True, register=register)


@pytest.mark.parametrize("lasting", [True, False])
def test_nodes_of_a_bed_that_crashed_are_taken_over(
    tmp_path: Path, register: Path, *, lasting: bool
) -> None:
    crashed = tmp_path / "crashed"
    if not lasting:
        running(crashed)  # its processes outlive the test session that had brought it up
    written(register, crashed, NOBODY, lasting=lasting)
    assert locks.take_nodes(tmp_path / "mine", lasting=True, register=register) == crashed
    assert locks.has_nodes(tmp_path / "mine", register)


def test_one_bed_takes_its_nodes_again(tmp_path: Path, register: Path) -> None:
    for _ in range(2):
        assert locks.take_nodes(tmp_path, lasting=True, register=register) is None
