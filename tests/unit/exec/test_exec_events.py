from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umbel.model.event import (
    AppRaised,
    EnvironmentBuilding,
    EnvironmentFailed,
    EnvironmentReady,
    Event,
    ReplyFailed,
    RoundEnded,
    RunBegan,
    RunEnded,
    TaskDied,
    accuracy_of,
    from_line,
    loss_of,
    to_line,
)

EVENTS: list[Event] = [
    RunBegan("1", "t", "FedAvg", 3),
    RunBegan("1", "t"),
    RoundEnded("1", "t", 2, 0.5, 3, 1, {"a": 1.0}, {"b": 2.0}, {"c": 3.0}),
    ReplyFailed("1", "t", "site", "why\nso"),
    AppRaised("1", "t", "hub", "message", "Traceback\n  größe"),
    TaskDied("1", "t", "site", "killed by SIGKILL"),
    EnvironmentBuilding("1", "t", "hub", ["numpy>=1.26"]),
    EnvironmentReady("1", "t", "hub", 3.5),
    EnvironmentFailed("1", "t", "hub", "no solution\nfound"),
    RunEnded("1", "t", 12.5, "model.npz"),
]
metrics = st.dictionaries(
    st.text(max_size=20), st.floats(allow_nan=False, allow_infinity=False), max_size=5
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_an_event_comes_back_from_its_line(event: Event) -> None:
    line = to_line(event)
    assert "\n" not in line
    assert json.loads(line)["kind"] == event.kind
    assert from_line(line) == event


@given(metrics, metrics, metrics)
def test_any_metric_names_and_numbers_come_back(
    train: dict[str, float], evaluate: dict[str, float], server: dict[str, float]
) -> None:
    event = RoundEnded("1", "t", 1, 0.5, 1, 0, train, evaluate, server)
    line = to_line(event)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert from_line(line) == event


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '"text"',
        "{}",
        '{"kind":"of-tomorrow","run_id":"1","at":"t"}',
        '{"kind":["run-began"]}',
        '{"kind":"run-began"}',
        to_line(EVENTS[2])[:-9],
    ],
)
def test_a_line_that_is_no_event_of_ours_is_nothing(line: str) -> None:
    assert from_line(line) is None


def test_what_a_newer_version_adds_is_dropped() -> None:
    line = json.dumps({"kind": "run-began", "run_id": "1", "at": "t", "colour": "blue"})
    assert from_line(line) == RunBegan("1", "t")


def ended(**stages: dict[str, float]) -> RoundEnded:
    return RoundEnded("1", "t", 1, 0.5, **stages)  # type: ignore[arg-type]


def test_central_evaluation_is_believed_before_the_sites_and_before_training() -> None:
    train, evaluate, server = {"train_loss": 3.0}, {"eval_loss": 2.0}, {"loss": 1.0}
    assert loss_of(ended(train=train, evaluate=evaluate, server=server)) == 1.0
    assert loss_of(ended(train=train, evaluate=evaluate)) == 2.0
    assert loss_of(ended(train=train)) == 3.0
    assert loss_of(ended()) is None


def test_the_shortest_name_is_taken() -> None:
    names = {"loss_of_head_2": 9.0, "loss": 1.0, "Val_Loss": 2.0}
    assert loss_of(ended(evaluate=names)) == 1.0


def test_accuracy_is_found_by_the_names_that_people_use() -> None:
    for name in ("accuracy", "Accuracy", "eval_acc", "test_accuracy"):
        assert accuracy_of(ended(evaluate={name: 0.5})) == 0.5
    assert accuracy_of(ended(evaluate={"f1": 0.5})) is None


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_passed_over_for_the_next(odd: float) -> None:
    assert loss_of(ended(server={"loss": odd}, evaluate={"loss": 2.0})) == 2.0
    assert loss_of(ended(server={"loss": odd, "mean_loss": 4.0})) == 4.0
    assert loss_of(ended(server={"loss": odd})) is None


def test_what_is_not_a_finite_number_is_null_and_never_picked() -> None:
    event = RoundEnded("1", "t", 1, 0.5, server={"loss": float("nan"), "big-loss": 2.0})
    back = from_line(to_line(event))
    assert isinstance(back, RoundEnded)
    assert back.server == {"loss": None, "big-loss": 2.0}
    assert loss_of(back) == 2.0
