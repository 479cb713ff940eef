"""Homes that are missing, closed, damaged or left behind: each ends in a clear finding."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from umbel.diagnosis.facts import HomeKind, KeeperState, StateKind
from umbel.diagnosis.finding import Finding, Severity
from umbel.diagnosis.gather import home as home_gatherer
from umbel.diagnosis.gather import keepers, old_runs, state
from umbel.diagnosis.gather.processes import Processes
from umbel.model.federation import Federation
from umbel.model.unit import HUB, Kind, Unit
from umbel.ports import Allotment, Kept
from umbel.store.sqlite import MIGRATIONS, SqliteStore

Looks = Callable[[Path], tuple[Finding, ...]]


def names(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.name for finding in findings]


def test_a_home_that_is_not_there_is_no_problem_and_is_not_made(
    tmp_path: Path, looking: Looks
) -> None:
    assert looking(tmp_path / "not" / "there") == ()
    assert list(tmp_path.iterdir()) == []


def test_looking_leaves_no_trace(tmp_path: Path, looking: Looks) -> None:
    home = tmp_path / "umbel"
    SqliteStore(home).close()
    before = {p: p.stat().st_mtime_ns for p in home.rglob("*")}
    assert looking(home) == ()
    assert {p: p.stat().st_mtime_ns for p in home.rglob("*")} == before


def test_a_home_that_cannot_be_written_says_so(looking: Looks) -> None:
    found = looking(Path("/proc"))  # nobody can write there, not even root
    assert "HomeNotWritable" in names(found)


def test_a_home_below_one_that_cannot_be_written_says_so(looking: Looks) -> None:
    assert names(looking(Path("/proc/umbel/home")))[:1] in (["HomeNotWritable"], ["HomeForeign"])


def test_a_home_that_is_a_file_says_so(tmp_path: Path, looking: Looks) -> None:
    place = tmp_path / "umbel"
    place.write_text("")
    assert names(looking(place)) == ["HomeNotFolder"]
    assert home_gatherer.look(place / "below").kind is HomeKind.OTHER


def test_a_damaged_state_file_is_told_with_what_to_do(tmp_path: Path, looking: Looks) -> None:
    home = tmp_path / "umbel"
    SqliteStore(home).close()
    (home / "umbel.db").write_bytes(b"not a database, but long enough to be one" * 200)
    for name in ("umbel.db-wal", "umbel.db-shm"):
        (home / name).unlink(missing_ok=True)
    (found,) = looking(home)
    assert found.name == "StateDamaged"
    assert str(home / "umbel.db") in found.hint


def test_a_state_file_of_a_newer_version_is_told(tmp_path: Path, looking: Looks) -> None:
    home = tmp_path / "umbel"
    SqliteStore(home).close()
    with sqlite3.connect(home / "umbel.db") as db:
        db.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    db.close()
    assert names(looking(home)) == ["StateNewer"]


def test_a_document_that_cannot_be_read_is_named(tmp_path: Path, looking: Looks) -> None:
    home = tmp_path / "umbel"
    SqliteStore(home).close()
    with sqlite3.connect(home / "umbel.db") as db:
        db.execute("INSERT INTO federation VALUES ('old', '{\"kind\": 7}')")
    db.close()
    (found,) = looking(home)
    assert (found.name, found.about) == ("DocumentUnreadable", "old")


def test_the_state_is_read_as_the_store_wrote_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "umbel")
    document = Federation.model_validate({"metadata": {"name": "one"}})
    kept = Kept(Unit("one", HUB, Kind.GATE, {"ports": {"fleet": 1}}), 12, 34)
    store.save_federation(document)
    store.save_allotment("one", Allotment({"fleet": 9092}, {"local-1": 0}))
    store.save_unit(kept)
    found = state.look(tmp_path / "umbel")  # while it is open, as beside a daemon
    store.close()
    assert found.seen.kind is StateKind.READ
    assert found.federations == {"one": document}
    assert found.ports == {"one": {"fleet": 9092}}
    assert found.units == {"one": (kept,)}


def test_the_state_is_read_also_where_its_journal_cannot_be(tmp_path: Path) -> None:
    home = tmp_path / "umbel"
    store = SqliteStore(home)
    store.save_federation(Federation.model_validate({"metadata": {"name": "one"}}))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("umbel.db", "umbel.db-wal"):
        (copy / name).write_bytes((home / name).read_bytes())
    store.close()
    (copy / "umbel.db-shm").mkdir()  # in the way of the journal's index
    found = state.look(copy)
    assert found.seen.kind is StateKind.READ, found.seen.why
    assert list(found.federations) == ["one"]


@pytest.mark.parametrize(
    "place", ["umbel.db", "run", "federations/local/ca/ca.key", "federations/local/users/a.token"]
)
def test_a_private_file_that_others_can_open_is_named(tmp_path: Path, place: str) -> None:
    home = tmp_path / "umbel"
    SqliteStore(home).close()
    for folder in ("run", "federations/local/ca", "federations/local/users"):
        (home / folder).mkdir(mode=0o700, parents=True)
    (home / "federations/local").chmod(0o700)
    for secret in ("federations/local/ca/ca.key", "federations/local/users/a.token"):
        (home / secret).touch(mode=0o600)
    assert home_gatherer.look(home).loose == ()
    (home / place).chmod(0o755)
    (loose,) = home_gatherer.look(home).loose
    assert loose.path == home / place
    assert loose.mode == 0o755


def test_a_home_of_another_user_is_refused(tmp_path: Path, looking: Looks) -> None:
    somebody = 12_345
    home = tmp_path / "umbel"
    SqliteStore(home).close()
    if os.geteuid() == 0:
        os.chown(home, somebody, -1)
        assert names(looking(home)) == ["HomeForeign"]
    else:
        assert names(looking(Path("/")))[:1] == ["HomeForeign"]


def test_a_socket_without_a_listener_is_stale(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("umbel.sock", "nursery.sock"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / "run" / name))
    assert keepers.daemon(tmp_path).state is KeeperState.STALE
    assert keepers.nursery(tmp_path).state is KeeperState.STALE


def test_who_listens_and_does_not_answer_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "ANSWER_S", 0.05)
    (tmp_path / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "run" / "umbel.sock"))
        mute.listen()
        found = keepers.daemon(tmp_path)
    assert found.state is KeeperState.SILENT
    assert "0.05" in found.why


@pytest.fixture
def process(tmp_path: Path) -> Callable[[Path], subprocess.Popen[bytes]]:
    def start(home: Path) -> subprocess.Popen[bytes]:
        wait = "import sys; sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()"
        words = [sys.executable, "-c", wait, "umbel.agent.nursery", str(home / "run" / "x.sock")]
        made = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
        assert made.stdout is not None
        made.stdout.read(1)
        return made

    return start


def test_a_process_of_this_home_that_nobody_owns_is_found_and_others_are_not(
    tmp_path: Path, process: Callable[[Path], subprocess.Popen[bytes]]
) -> None:
    with process(tmp_path / "one") as mine, process(tmp_path / "one-and-a-half") as foreign:
        left = Processes(tmp_path / "one", [], young_s=-1).left()
        owned = Processes(tmp_path / "one", [mine.pid], young_s=-1).left()
        young = Processes(tmp_path / "one", [])
        assert young.left() == ()
        assert young.starting()
        for made in (mine, foreign):
            made.communicate()
    assert [found.pid for found in left] == [mine.pid]
    assert owned == ()


def test_the_holder_of_a_port_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        foreign = Processes(Path("/nowhere"), []).holder(port)
        ours = Processes(Path("/nowhere"), [os.getpid()]).holder(port)
    assert foreign is not None
    assert ours is not None
    assert (foreign.pid, foreign.ours) == (os.getpid(), False)
    assert ours.ours
    assert Processes(Path("/nowhere"), []).holder(port) is None


def test_runs_that_nobody_touched_for_a_month_are_counted(tmp_path: Path) -> None:
    runs = tmp_path / "federations" / "gone" / "hub" / "runs"
    for number, days in enumerate((1, 40, 90)):
        folder = runs / str(number)
        folder.mkdir(parents=True)
        (folder / "model.npz").write_bytes(b"0" * 1000)
        at = time.time() - days * 86_400
        os.utime(folder, (at, at))
    (found,) = old_runs.look(tmp_path, datetime.now(UTC))
    assert (found.count, found.size, found.days) == (2, 2000, 90)


def test_a_folder_that_can_be_written_is_left_empty(tmp_path: Path) -> None:
    assert home_gatherer.why_unwritable(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
    assert home_gatherer.why_unwritable(Path("/proc")) != ""


def test_severities_of_a_missing_home_are_at_most_notes(tmp_path: Path, looking: Looks) -> None:
    assert all(f.severity is not Severity.PROBLEM for f in looking(tmp_path / "x"))
