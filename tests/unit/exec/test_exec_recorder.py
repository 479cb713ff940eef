from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umbel.exec import recorder as module
from umbel.exec.recorder import EventFile, Recorder, raised
from umbel.model.event import Event, ReplyFailed, RoundEnded, RunBegan, RunEnded
from umbel.observe.runs import read_events


class Clock:
    """Gives a second more each time somebody looks."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        self.now_s += 1.0
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("umbel.exec.recorder.time", made)
    numbers = iter(range(1000))
    monkeypatch.setattr(module, "now_text", lambda: f"t{next(numbers):03d}")
    return made


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(7, tmp_path, EventFile(tmp_path / "events.jsonl"))


def told(folder: Path) -> list[Event]:
    return read_events([folder])


def rounds(folder: Path) -> list[RoundEnded]:
    return [event for event in told(folder) if isinstance(event, RoundEnded)]


def test_a_message_api_run_with_central_evaluation(recorder: Recorder, tmp_path: Path) -> None:
    recorder.began("FedAvg", 1)
    recorder.measured("server", 0, {"loss": 2.0}, last=True)
    recorder.round_began(1)
    recorder.exchanged(3, 0, {"ignored": 1.0})
    recorder.measured("train", 1, {"train_loss": 0.9}, last=False)
    recorder.exchanged(2, 1, {})
    recorder.measured("evaluate", 1, {"loss": 0.8}, last=False)
    recorder.measured("server", 1, {"loss": 0.7}, last=True)
    recorder.ended(lambda: {"w": np.ones(2)})
    kinds = [event.kind for event in told(tmp_path)]
    assert kinds == ["run-began", "round-ended", "round-ended", "run-ended"]
    start, first = rounds(tmp_path)
    assert (start.round, start.server, start.replies) == (0, {"loss": 2.0}, 0)
    assert (first.round, first.replies, first.failures) == (1, 3, 1)
    assert (first.train, first.evaluate) == ({"train_loss": 0.9}, {"loss": 0.8})
    assert first.server == {"loss": 0.7}
    assert first.seconds == 1.0  # two looks at the clock: the round's begin and its end


def test_a_run_without_central_evaluation_ends_its_rounds_with_the_sites(
    recorder: Recorder, tmp_path: Path
) -> None:
    recorder.began("FedAvg", 2)
    for number in (1, 2):
        recorder.round_began(number)
        recorder.exchanged(2, 0, {})
        recorder.measured("train", number, {}, last=False)
        recorder.measured("evaluate", number, {"loss": 1 / number}, last=True)
    recorder.ended(None)
    assert [(e.round, e.evaluate["loss"]) for e in rounds(tmp_path)] == [(1, 1.0), (2, 0.5)]
    began, *_, ended = told(tmp_path)
    assert isinstance(began, RunBegan)
    assert (began.run_id, began.strategy, began.rounds) == ("7", "FedAvg", 2)
    assert isinstance(ended, RunEnded)
    assert ended.model == ""


def test_nothing_of_a_round_leaks_into_the_next(recorder: Recorder, tmp_path: Path) -> None:
    recorder.began("FedAvg", 2)
    recorder.round_began(1)
    recorder.exchanged(3, 2, {})
    recorder.measured("train", 1, {"a": 1.0}, last=False)
    recorder.measured("evaluate", 1, {"b": 1.0}, last=True)
    recorder.round_began(2)
    recorder.measured("evaluate", 2, {}, last=True)
    second = rounds(tmp_path)[1]
    assert (second.replies, second.failures, second.train, second.evaluate) == (0, 0, {}, {})


def test_without_a_strategy_each_exchange_is_a_round(recorder: Recorder, tmp_path: Path) -> None:
    recorder.exchanged(3, 0, {"sum": 4.0})
    recorder.exchanged(2, 1, {"sum": 5.0})
    found = rounds(tmp_path)
    assert [(e.round, e.replies, e.failures, e.evaluate) for e in found] == [
        (1, 3, 0, {"sum": 4.0}),
        (2, 2, 1, {"sum": 5.0}),
    ]


def test_a_failed_answer_is_an_event_with_its_site(recorder: Recorder, tmp_path: Path) -> None:
    recorder.failed("local-2", "division by zero")
    event = told(tmp_path)[0]
    assert isinstance(event, ReplyFailed)
    assert (event.site, event.reason) == ("local-2", "division by zero")


def test_the_model_and_the_metrics_are_files_at_the_end(recorder: Recorder, tmp_path: Path) -> None:
    recorder.began("FedAvg", 1)
    recorder.round_began(1)
    recorder.measured("evaluate", 1, {"loss": 0.25}, last=True)
    recorder.ended(lambda: {"layer.weight": np.eye(2), "layer.bias": np.zeros(3)})
    model = np.load(tmp_path / "model.npz")
    assert sorted(model.files) == ["layer.bias", "layer.weight"]
    assert model["layer.weight"].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert [(m["round"], m["evaluate"]) for m in metrics] == [(1, {"loss": 0.25})]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "events.jsonl",
        "metrics.json",
        "model.npz",
    ]


def test_a_disk_that_takes_nothing_costs_the_record_not_the_run(tmp_path: Path) -> None:
    nowhere = tmp_path / "gone"
    recorder = Recorder(7, nowhere, EventFile(nowhere / "events.jsonl"))
    recorder.began("FedAvg", 1)
    recorder.round_began(1)
    recorder.measured("evaluate", 1, {}, last=True)
    recorder.ended(dict[str, Any])
    assert not nowhere.exists()


def test_a_model_that_is_not_made_of_arrays_costs_the_file_not_the_run(
    recorder: Recorder, tmp_path: Path
) -> None:
    """Such as trees, which older apps send as bytes."""

    def unreadable() -> dict[str, Any]:
        raise ValueError("not an array")

    recorder.began("FedXgbBagging", 1)
    recorder.ended(unreadable)
    assert [event.kind for event in told(tmp_path)] == ["run-began", "run-ended"]
    assert not (tmp_path / "model.npz").exists()


def test_an_exception_is_told_with_its_whole_traceback() -> None:
    def deep() -> None:
        raise ZeroDivisionError("nothing left")

    try:
        deep()
    except ZeroDivisionError as error:
        event = raised(7, "local-1", "ClientApp raised an exception", error)
    assert (event.run_id, event.site) == ("7", "local-1")
    assert "in deep" in event.traceback
    assert event.traceback.endswith("ZeroDivisionError: nothing left\n")


def test_events_of_a_file_are_whole_lines(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "events.jsonl")
    file.append(ReplyFailed("7", "t", "a", "line one\nline two"))
    file.append(ReplyFailed("7", "t", "b", ""))
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 2
    assert [e.reason for e in told(tmp_path) if isinstance(e, ReplyFailed)] == [
        "line one\nline two",
        "",
    ]
