from __future__ import annotations

import http.client
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from umbel.client import Conversation, run_path
from umbel.engine.runs import RunUnknown
from umbel.errors import Relayed, UmbelError
from umbel.flower.control import ControlUnreachable
from umbel.gate.refusals import HubUnreachable, TokenRefused
from umbel.remote import TRIES, Remote, RemoteClient

WHERE = "fl.example.org:9093"


def line(**members: Any) -> bytes:
    return json.dumps(members).encode() + b"\n"


class Stream(io.BytesIO):
    """An answer that may break off."""

    def __init__(self, *lines: bytes, breaks: bool = False) -> None:
        super().__init__(b"".join(lines))
        self._breaks = breaks

    def __next__(self) -> bytes:
        try:
            return super().__next__()
        except StopIteration:
            if self._breaks:
                raise http.client.IncompleteRead(b"") from None
            raise


class Told(Conversation):
    """Gives prepared answers, and notes how often it had to mend."""

    def __init__(self, *answers: Stream | UmbelError) -> None:
        self._answers = iter(answers)
        self.mended: list[tuple[UmbelError | None, int]] = []
        self.asked: list[str] = []

    def _request(self, method: str, path: str, body: str | None = None) -> Any:
        self.asked.append(f"{method} {path} {body or ''}".strip())
        answer = next(self._answers)
        if isinstance(answer, UmbelError):
            raise answer
        return answer

    def _broken(self, error: Exception) -> UmbelError:
        return HubUnreachable(WHERE, type(error).__name__)

    def _is_broken(self, error: UmbelError) -> bool:
        return isinstance(error, HubUnreachable)

    def _mend(self, error: UmbelError | None, tries: int) -> None:
        self.mended.append((error, tries))

    def run(self, name: str, app: Path, config: Mapping[str, Any]) -> Any:
        raise AssertionError((name, app, config))

    def pull(self, name: str, run: str, into: Path) -> list[Path]:
        raise AssertionError((name, run, into))


ONE, TWO = line(kind="round-ended", round=1), line(kind="round-ended", round=2)
RUNS, ENDED = line(kind="status", status="running"), line(kind="status", status="completed")


def followed(*answers: Stream | UmbelError) -> tuple[list[Any], Told]:
    told = Told(*answers)
    return [item.get("round") or item["status"] for item in told.events("lab", "7")], told


def test_events_are_given_to_the_end() -> None:
    items, told = followed(Stream(RUNS, b"\n", ONE, b"\n", TWO, ENDED))
    assert items == ["running", 1, 2, "completed"]
    assert told.mended == []
    assert told.asked == ["GET /v1/federations/lab/runs/7/events"]


def test_after_a_break_nothing_is_told_twice_and_nothing_is_missed() -> None:
    items, told = followed(
        Stream(RUNS, ONE, breaks=True),
        HubUnreachable(WHERE, "refused"),
        Stream(RUNS, ONE, TWO),  # ended in order, but not with the run
        Stream(RUNS, ONE, TWO, ENDED),
    )
    assert items == ["running", 1, 2, "completed"]
    assert [(type(error).__name__, tries) for error, tries in told.mended] == [
        ("HubUnreachable", 0),
        ("HubUnreachable", 1),
        ("NoneType", 0),
    ]


def test_what_comes_after_the_last_status_is_not_lost_with_the_connection() -> None:
    items, _ = followed(Stream(RUNS, ENDED, breaks=True), Stream(RUNS, ENDED, ONE))
    assert items == ["running", "completed", 1]


def test_an_error_that_waiting_does_not_mend_is_raised() -> None:
    with pytest.raises(TokenRefused):
        followed(TokenRefused(WHERE))
    problem = RunUnknown("7", []).as_problem()
    with pytest.raises(Relayed, match="U324"):
        followed(Stream(line(problem=problem)))


def test_an_answer_that_breaks_off_is_told() -> None:
    with pytest.raises(HubUnreachable):
        Told(Stream(b'{"half')).status("lab")


def test_names_are_escaped() -> None:
    assert run_path("a/b", "1?x") == "/v1/federations/a%2Fb/runs/1%3Fx"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(WHERE, tmp_path / "ca.crt", tmp_path / "token")


@pytest.fixture
def client(remote: Remote, authority: bytes) -> RemoteClient:
    remote.ca.write_bytes(authority)
    return RemoteClient(remote)


def test_a_hub_that_restarts_is_waited_for_but_not_for_ever(client: RemoteClient) -> None:
    away = HubUnreachable(WHERE, "refused")
    assert client._is_broken(away)
    assert client._is_broken(Relayed(ControlUnreachable(WHERE, "answer 503").as_problem()))
    assert not client._is_broken(TokenRefused(WHERE))
    assert not client._is_broken(Relayed(RunUnknown("1", []).as_problem()))
    with pytest.raises(HubUnreachable, match="refused"):
        client._mend(away, TRIES)
    with pytest.raises(HubUnreachable, match="no end"):
        client._mend(None, TRIES)
