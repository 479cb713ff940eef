from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from umbel.diagnosis import home
from umbel.diagnosis.checks import judge
from umbel.diagnosis.facts import Facts, HomeKind, Keeper, KeeperState, Loose, StateKind, StateSeen
from umbel.diagnosis.finding import Finding, Severity, causes, has_problem
from umbel.diagnosis.gather.home import filesystem_of

Builds = Callable[..., Facts]
DB = Path("/home/ada/umbel/umbel.db")


def with_home(facts: Facts, **changes: Any) -> Facts:
    return replace(facts, home=replace(facts.home, **changes))


def problems(facts: Facts) -> list[Finding]:
    return [f for f in causes(judge(facts)) if f.severity is Severity.PROBLEM]


def test_a_home_of_somebody_else_is_refused_and_explains_the_rest(healthy: Builds) -> None:
    facts = with_home(
        healthy(
            state=StateSeen(StateKind.UNSEEN, DB, "Permission denied"),
            daemon=Keeper("daemon", KeeperState.SILENT, "Permission denied"),
            federations=(),
        ),
        owner=0,
        owner_name="root",
        unwritable="Permission denied",
    )
    (found,) = problems(facts)
    assert found.name == "HomeForeign"
    assert "root" in found.fact
    assert "ada" in found.fact


def test_a_home_that_is_a_file_is_one_problem(healthy: Builds) -> None:
    facts = with_home(healthy(federations=()), kind=HomeKind.OTHER, unwritable="Not a directory")
    assert [f.name for f in problems(facts)] == ["HomeNotFolder"]


def test_a_read_only_home_is_a_problem(healthy: Builds) -> None:
    facts = with_home(healthy(), unwritable="Read-only file system")
    (found,) = problems(facts)
    assert found.name == "HomeNotWritable"
    assert "Read-only file system" in found.fact
    assert "UMBEL_HOME" in found.hint


@pytest.mark.parametrize(
    ("free", "files", "name"),
    [
        (1 << 20, 9999, "DiskFull"),
        (500 << 20, 9999, "DiskNearlyFull"),
        (50 << 30, 10, "InodesUsedUp"),
        (50 << 30, None, "Disk"),
    ],
)
def test_a_full_disk_is_told(healthy: Builds, free: int, files: int | None, name: str) -> None:
    (found,) = home.space(with_home(healthy(), free_bytes=free, free_files=files))
    assert found.name == name


def test_a_full_disk_explains_why_nothing_can_be_written(healthy: Builds) -> None:
    facts = with_home(healthy(), free_bytes=0, unwritable="No space left on device")
    assert [f.name for f in problems(facts)] == ["DiskFull"]


def test_open_private_files_are_named_with_the_command_that_closes_them(healthy: Builds) -> None:
    loose = tuple(Loose(Path(f"/h/{n}.key"), 0o644, 0o600) for n in range(7))
    (found,) = problems(with_home(healthy(), loose=loose))
    assert found.name == "PrivateFilesOpen"
    assert "/h/0.key (0644)" in found.fact
    assert "2 more" in found.fact
    assert "chmod 600 /h/0.key" in found.hint


def test_a_network_file_system_and_an_open_parent_are_warnings(healthy: Builds) -> None:
    facts = with_home(healthy(), filesystem="nfs4", open_parent=Path("/data"))
    found = list(home.writable(facts))
    assert [f.name for f in found] == ["HomeOnNetwork", "HomeParentOpen"]
    assert not has_problem(found)


@pytest.mark.parametrize(
    ("kind", "name"), [(StateKind.DAMAGED, "StateDamaged"), (StateKind.NEWER, "StateNewer")]
)
def test_a_state_file_that_cannot_be_used_explains_the_rest(
    healthy: Builds, kind: StateKind, name: str
) -> None:
    facts = healthy(
        state=StateSeen(kind, DB, "why"),
        daemon=Keeper("daemon", KeeperState.SILENT, "no answer"),
        nursery=Keeper("nursery", KeeperState.SILENT, "no answer"),
        federations=(),
    )
    (found,) = problems(facts)
    assert found.name == name
    assert found.hint


def test_a_document_of_another_version_is_named(healthy: Builds) -> None:
    (found,) = problems(healthy(unreadable=("old",)))
    assert (found.name, found.about) == ("DocumentUnreadable", "old")


def test_the_innermost_mount_tells_the_file_system() -> None:
    mounts = (
        "/dev/a / ext4 rw 0 0\nhost:/x /home nfs4 rw 0 0\ntmp /home/my\\040files tmpfs rw 0 0\n"
    )
    assert filesystem_of("/var/lib", mounts) == "ext4"
    assert filesystem_of("/home/ada", mounts) == "nfs4"
    assert filesystem_of("/homes", mounts) == "ext4"
    assert filesystem_of("/home/my files/x", mounts) == "tmpfs"
