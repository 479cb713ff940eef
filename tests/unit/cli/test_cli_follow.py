from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from umbel.cli.follow import Follower, round_line
from umbel.cli.output import Output
from umbel.client import Client
from umbel.model.event import (
    AppRaised,
    EnvironmentBuilding,
    EnvironmentFailed,
    EnvironmentReady,
    Event,
    ReplyFailed,
    RoundEnded,
    RunBegan,
    TaskDied,
    to_line,
)


class Told(Client):
    """A client that tells these events."""

    def __init__(self, items: Iterable[dict[str, Any]]) -> None:
        super().__init__(Path("/nowhere"))
        self._items = list(items)

    def events(self, name: str, run: str) -> Iterator[Any]:
        assert (name, run) == ("lab", "7")
        return iter(self._items)


def status(word: str, details: str = "") -> dict[str, Any]:
    return {"kind": "status", "run_id": "7", "status": word, "details": details}


def ended(number: int, replies: int = 2, failures: int = 0, **metrics: float) -> RoundEnded:
    return RoundEnded("7", "t", number, 1.5, replies, failures, {}, metrics, {})


def followed(*items: Event | dict[str, Any], output: Output = Output.TEXT) -> tuple[int, Any]:
    plain = [i if isinstance(i, dict) else json.loads(to_line(i)) for i in items]
    follower = Follower(Told(plain), "lab", "7", quiet=output is not Output.TEXT)
    last = follower.watch()
    follower.show_result(last, output)
    return follower.exit_status(last), last


def test_a_round_is_one_line() -> None:
    event = ended(2, 3, 1, loss=0.5, accuracy=0.75)
    assert round_line(event, 10) == (
        "round 2/10  loss 0.5000  accuracy 0.7500  3 nodes, 1 failed  1.50 s"
    )
    assert round_line(ended(2), None) == "round 2/?  loss -  accuracy -  2 nodes  1.50 s"


def test_what_comes_before_the_first_round_has_no_nodes() -> None:
    assert round_line(ended(0, loss=2.3), 3) == "start       loss 2.3000  accuracy -"


def test_a_completed_run_shows_its_rounds_and_how_to_get_the_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, last = followed(
        status("running"),
        RunBegan("7", "t", "FedAvg", 2),
        ended(1, loss=0.5),
        status("completed"),
        ended(2, loss=0.25),
    )
    said = capsys.readouterr()
    assert (code, last["status"]) == (0, "completed")
    assert "round 1/2  loss 0.5000" in said.err
    assert [line.split()[:2] for line in said.out.splitlines()] == [
        ["ROUND", "LOSS"],
        ["1", "0.5000"],
        ["2", "0.2500"],
    ]
    assert "run 7 completed after" in said.err
    assert "umbel pull 7" in said.err


def test_a_failed_run_shows_the_serverapps_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    raised = AppRaised("7", "t", "hub", "m", "Traceback …\nBoom: \x1b[31mred\n")
    code, _ = followed(status("running"), raised, status("failed", "ServerApp failed"))
    said = capsys.readouterr().err
    assert code == 1
    assert "the ServerApp raised an exception" in said
    assert "Boom: \\x1b[31mred" in said
    assert "failed after" in said
    assert "ServerApp failed" in said


def test_a_clients_traceback_is_shown_once_with_its_site(
    capsys: pytest.CaptureFixture[str],
) -> None:
    raised = [AppRaised("7", "t", "local-2", "m", f"Boom {n}\n") for n in range(3)]
    failed = ReplyFailed("7", "t", "local-2", "Boom")
    code, _ = followed(*raised, failed, ended(1, 2, 1), status("completed"))
    said = capsys.readouterr().err
    assert code == 0
    assert said.count("the ClientApp at local-2 raised an exception") == 1
    assert "local-2 failed:" not in said
    assert "Boom 0" in said
    assert "Boom 1" not in said


def test_the_same_error_everywhere_is_shown_for_three_sites_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    raised = [AppRaised("7", "t", f"local-{n}", "m", "Boom\n") for n in range(9)]
    followed(*raised, status("failed"))
    assert capsys.readouterr().err.count("raised an exception") == 3


def test_a_site_that_failed_without_a_traceback_says_its_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    died = TaskDied("7", "t", "local-1", "killed by SIGKILL")
    followed(died, ReplyFailed("7", "t", "local-2", "Node Unavailable"), status("completed"))
    said = capsys.readouterr().err
    assert "local-1 failed: the task's process killed by SIGKILL" in said
    assert "local-2 failed: Node Unavailable" in said


def test_a_run_in_which_no_site_ever_answered_well_has_failed() -> None:
    failed = ReplyFailed("7", "t", "local-1", "ImportError")
    assert followed(failed, ended(1, 0, 3), status("completed"))[0] == 1
    assert followed(failed, ended(1, 0, 3), ended(2, 1, 2), status("completed"))[0] == 0


@pytest.mark.parametrize(
    ("word", "code"), [("completed", 0), ("failed", 1), ("stopped", 3), ("unknown", 1)]
)
def test_the_exit_status_is_the_runs(word: str, code: int) -> None:
    assert followed(status(word))[0] == code


def test_a_run_that_failed_before_anything_points_to_its_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    followed(status("failed"))
    assert "umbel logs 7" in capsys.readouterr().err


@pytest.mark.parametrize("output", [Output.JSON, Output.YAML])
def test_as_data_only_the_status_is_on_stdout(
    output: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    raised = AppRaised("7", "t", "local-2", "m", "Boom\n")
    followed(raised, ended(1), status("completed"), output=output)
    said = capsys.readouterr()
    assert "Boom" in said.err
    assert "Boom" not in said.out
    assert "completed" in said.out
    if output is Output.JSON:
        assert json.loads(said.out)["status"] == "completed"


def test_a_line_of_a_newer_version_is_passed_over() -> None:
    odd = {"kind": "round-ended", "run_id": "7"}
    assert followed(odd, {"kind": "of-tomorrow"}, status("completed"))[0] == 0


def test_the_wait_for_an_environment_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    needs = ["numpy>=1.26", "torch"]
    followed(
        EnvironmentBuilding("7", "t", "hub", needs),
        EnvironmentBuilding("7", "t", "local-1", needs),
        EnvironmentReady("7", "t", "hub", 2.25),
        EnvironmentReady("7", "t", "local-1", 2.25),
        status("completed"),
    )
    said = capsys.readouterr().err
    assert said.count("building the app's environment: numpy>=1.26, torch") == 1
    assert said.count("the environment is ready after 2.2 s; it is kept") == 1


def test_an_environment_that_cannot_be_built_is_told_with_its_site(
    capsys: pytest.CaptureFixture[str],
) -> None:
    followed(
        EnvironmentBuilding("7", "t", "local-1", ["lost"]),
        EnvironmentFailed("7", "t", "local-1", "lost was not found"),
        EnvironmentFailed("7", "t", "hub", "lost was not found"),
        status("failed", "the app's environment cannot be built: lost was not found"),
    )
    said = capsys.readouterr().err
    told = "the app's environment cannot be built: lost was not found"
    assert f"local-1 failed: {told}" in said
    assert said.count(told) == 2
