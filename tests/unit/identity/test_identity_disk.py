from __future__ import annotations

import stat
from pathlib import Path

import pytest

from umbel.files import CannotWrite
from umbel.identity import disk


def many(folder: Path) -> dict[Path, bytes]:
    return {folder / f"file-{i}": f"content {i}".encode() for i in range(20)}


def test_many_files_are_written_whole_and_private(tmp_path: Path) -> None:
    files = many(tmp_path)
    disk.write_all(files)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_writing_many_replaces_what_was_there(tmp_path: Path) -> None:
    files = many(tmp_path)
    disk.write_all(dict.fromkeys(files, b"old"))
    disk.write_all(files)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_failure_leaves_nothing_half_done(tmp_path: Path) -> None:
    files = many(tmp_path) | {tmp_path / "no-such-folder" / "file": b"x"}
    with pytest.raises(CannotWrite, match="no-such-folder"):
        disk.write_all(files)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_change_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert disk.write_changed(path, b"one")
    seen = path.stat()
    assert not disk.write_changed(path, b"one")
    now = path.stat()  # reading it changes the time of the last access
    assert (now.st_ino, now.st_mtime_ns) == (seen.st_ino, seen.st_mtime_ns)
    assert disk.write_changed(path, b"two")


def test_what_cannot_be_read_is_not_taken_for_absent(tmp_path: Path) -> None:
    assert disk.read(tmp_path / "nothing") is None
    for read in (disk.read, disk.read_private):
        with pytest.raises(disk.IdentityUnreadable, match="U421"):
            read(tmp_path)


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), disk.locked(tmp_path):
        raise KeyboardInterrupt
    with disk.locked(tmp_path):
        assert stat.S_IMODE((tmp_path / ".lock").stat().st_mode) == 0o600


def test_a_lock_is_no_way_to_write_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotWrite), disk.locked(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()
