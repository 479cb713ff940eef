from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from umbel.gate.audit import BURST_S, KINDS, Audit, AuditUnwritable, Entry, iso

START = 1772366400.25


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def open_audit(path: Path, clock: Clock, size: int = 1 << 20, files: int = 3) -> Audit:
    return Audit(path, size=size, files=files, clock=clock)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def entry(who: str = "stranger", peer: str = "192.0.2.1", status: int = 401) -> Entry:
    return Entry("control", who, peer, "control/list-runs", status, ms=1.26, why="no token")


def test_a_line_says_who_did_what_when_with_what_result(path: Path, clock: Clock) -> None:
    open_audit(path, clock).write(
        Entry("control", "user:alice", "192.0.2.1", "control/start-run", 200, 12.34, 5, 7)
    )
    assert lines(path) == [
        {
            "at": "2026-03-01T12:00:00.250Z",
            "door": "control",
            "who": "user:alice",
            "peer": "192.0.2.1",
            "what": "control/start-run",
            "status": 200,
            "ms": 12.3,
            "bytes_in": 5,
            "bytes_out": 7,
        }
    ]


def test_only_the_owner_reads_it(path: Path, clock: Clock) -> None:
    path.touch(mode=0o644)
    open_audit(path, clock).write(entry())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_burst_of_refusals_is_one_line_and_a_count(path: Path, clock: Clock) -> None:
    audit = open_audit(path, clock)
    for _ in range(1000):
        audit.refusal(entry())
    assert len(lines(path)) == 1
    audit.settle()
    assert len(lines(path)) == 1
    clock.now += BURST_S
    audit.settle()
    assert [line.get("times", 1) for line in lines(path)] == [1, 999]
    audit.refusal(entry())
    assert len(lines(path)) == 3


def test_refusals_of_different_peers_are_different(path: Path, clock: Clock) -> None:
    audit = open_audit(path, clock)
    audit.refusal(entry(peer="192.0.2.1"))
    audit.refusal(entry(peer="192.0.2.2"))
    assert len(lines(path)) == 2


def test_a_flood_from_everywhere_fills_no_disk(path: Path, clock: Clock) -> None:
    audit = open_audit(path, clock)
    for number in range(10_000):
        audit.refusal(entry(peer=f"peer-{number}"))
    audit.close()
    written = lines(path)
    assert len(written) <= KINDS + 2
    assert sum(line.get("times", 1) for line in written) == 10_000


def test_closing_writes_what_was_counted(path: Path, clock: Clock) -> None:
    audit = open_audit(path, clock)
    audit.refusal(entry())
    audit.refusal(entry())
    audit.close()
    assert [line.get("times", 1) for line in lines(path)] == [1, 1]


def test_old_files_are_kept_up_to_a_number(path: Path, clock: Clock) -> None:
    audit = open_audit(path, clock, size=1000, files=3)
    for number in range(100):
        audit.write(entry(peer=str(number)))
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
    ]
    kept = ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]
    peers = [int(line["peer"]) for name in kept for line in lines(path.parent / name)]
    assert peers == list(range(peers[0], 100))
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.stat().st_size < 1300


def test_one_file_is_enough_if_told_so(path: Path, clock: Clock) -> None:
    audit = open_audit(path, clock, size=1000, files=1)
    for number in range(100):
        audit.write(entry(peer=str(number)))
    assert [p.name for p in path.parent.iterdir()] == ["audit.jsonl"]
    assert path.stat().st_size < 1300


def test_a_full_disk_is_noticed_and_survived(clock: Clock) -> None:
    audit = open_audit(Path("/dev/full"), clock)
    audit.event("gate started")
    audit.write(entry())
    assert not audit.ready


def test_a_call_may_go_on_while_there_is_room(path: Path, clock: Clock) -> None:
    audit = open_audit(path, clock)
    audit.write(entry())
    assert audit.ready


def test_what_was_lost_is_told_when_writing_works_again(tmp_path: Path, clock: Clock) -> None:
    link = tmp_path / "folder" / "audit.jsonl"
    link.parent.mkdir()
    audit = open_audit(link, clock, size=1)  # every line makes a new file
    audit.write(entry())
    for file in link.parent.iterdir():
        file.unlink()
    link.parent.rmdir()
    audit.write(entry())
    audit.write(entry())
    assert not audit.ready
    link.parent.mkdir()
    assert audit.ready
    told = [line for p in link.parent.iterdir() for line in lines(p) if "lost" in line]
    assert told[0]["what"] == "audit resumed"
    assert told[0]["lost"] >= 1


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(AuditUnwritable, match="U244"):
        open_audit(tmp_path / "no" / "audit.jsonl", clock)


def test_a_link_is_not_followed(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditUnwritable):
        open_audit(tmp_path / "link", clock)


def test_a_time_is_utc_to_the_millisecond() -> None:
    assert iso(0.0015) == "1970-01-01T00:00:00.001Z"
