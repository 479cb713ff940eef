from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umbel.model.event import Event, RoundEnded, RunBegan, RunEnded, to_line
from umbel.observe.runs import Tail, enrich, is_over, read_events, run_folders
from umbel.testing import run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_file_that_is_not_there_yet_has_no_lines(log: Path) -> None:
    tail = Tail(log)
    assert tail.read() == tail.rest() == []
    append(log, b"now\n")
    assert tail.read() == ["now"]


def test_only_whole_new_lines_are_given_and_each_once(log: Path) -> None:
    tail = Tail(log)
    append(log, b"one\ntw")
    assert tail.read() == ["one"]
    assert tail.read() == []
    append(log, b"o\n\nfour\n")
    assert tail.read() == ["two", "", "four"]


def test_the_rest_includes_a_line_that_nobody_ended_once(log: Path) -> None:
    tail = Tail(log)
    append(log, b"one\nhalf")
    assert tail.rest() == ["one", "half"]
    assert tail.rest() == []


def test_a_character_cut_in_two_is_not_broken(log: Path) -> None:
    tail = Tail(log)
    data = "größe\n".encode()
    append(log, data[:3])
    assert tail.read() == []
    append(log, data[3:])
    assert tail.read() == ["größe"]


def test_bytes_that_are_no_text_do_not_stop_the_reader(log: Path) -> None:
    append(log, b"\xff\xfe\nnext\n")
    assert Tail(log).read()[-1] == "next"


@given(st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"\xc3", b"\xa4\n"]), max_size=12))
def test_however_it_is_written_nothing_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("tail") / "log"
    tail, seen = Tail(path), []
    for piece in pieces:
        append(path, piece)
        seen += tail.read()
    seen += tail.rest()
    assert seen == b"".join(pieces).decode(errors="replace").splitlines()


def test_events_of_all_places_come_in_the_order_of_time(tmp_path: Path) -> None:
    hub, site, empty = (tmp_path / name for name in ("hub", "site", "empty"))
    for folder in (hub, site, empty):
        folder.mkdir()
    append(hub / "events.jsonl", f"{to_line(RunBegan('1', '2'))}\nnot ours\n".encode())
    append(site / "events.jsonl", f"{to_line(RunBegan('1', '1'))}\n".encode())
    assert [event.at for event in read_events([hub, site, empty])] == ["1", "2"]


def ended(number: int, **metrics: float) -> RoundEnded:
    return RoundEnded("1", "t", number, 0.5, 2, 0, {}, metrics, {})


def test_a_run_is_as_far_as_its_last_round() -> None:
    events: list[Event] = [
        RunBegan("1", "t", "FedAvg", 5),
        ended(0, loss=2.0),
        ended(1, loss=1.0, accuracy=0.5),
        ended(2, loss=0.5),
    ]
    found = enrich(run("1", "running"), events)
    assert (found.rounds_done, found.rounds, found.status) == (2, 5, "running")
    assert (found.loss, found.accuracy) == (0.5, 0.5)


def test_a_run_without_events_stays_as_it_is() -> None:
    assert enrich(run("1"), []) == run("1")


def test_a_strategy_that_returned_is_over() -> None:
    assert not is_over([RunBegan("1", "t")])
    assert is_over([RunBegan("1", "t"), RunEnded("1", "t", 1.0)])


def test_a_run_has_a_folder_only_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "a" / "7").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    places = {name: tmp_path / name for name in ("a", "b", "c")}
    assert run_folders(places, "7") == {"a": tmp_path / "a" / "7"}
