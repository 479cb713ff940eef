from __future__ import annotations

from pathlib import Path

from umbel.agent.log_files import trim
from umbel.agent.supervisor import last_words


def test_the_last_lines_that_say_something_are_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "unit.log"
    log.write_text("first\n\n  Exit Code: 305\nreason\n\nFor help, visit: https://x\nend\n")
    assert last_words({"log": str(log)}) == "Exit Code: 305 / reason / end"


def test_long_words_are_cut_and_a_missing_log_is_told(tmp_path: Path) -> None:
    log = tmp_path / "unit.log"
    log.write_text("x" * 10_000)
    assert last_words({"log": str(log)}) == "x" * 400
    assert last_words({"log": str(tmp_path / "none")}) == "no log"


def test_a_log_that_is_no_text_is_read_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "unit.log"
    log.write_bytes(b"\xff\xfe broken\n")
    assert last_words({"log": str(log)}).endswith("broken")


def test_a_large_log_is_moved_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "logs"
    folder.mkdir(parents=True)
    large, small = folder / "gate.log", folder / "superlink.log"
    small.write_text("small")
    with large.open("ab") as writer:
        writer.write(b"x" * 101)
        writer.flush()
        assert trim(tmp_path, limit_bytes=100) == [large]
        writer.write(b"after")
    assert large.read_bytes() == b"after"
    assert (folder / "gate.log.1").read_bytes() == b"x" * 101
    assert small.read_text() == "small"


def test_a_log_within_the_limit_stays(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_bytes(b"x" * 100)
    assert trim(tmp_path, limit_bytes=100) == []
