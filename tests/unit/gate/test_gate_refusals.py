from __future__ import annotations

import json
import ssl

import pytest

from umbel.engine.runs import RunUnknown
from umbel.gate.answers import answer
from umbel.gate.refusals import (
    AnswerOdd,
    HubUnreachable,
    HubUntrusted,
    RoleTooSmall,
    TokenRefused,
    broken,
    refusal,
)

WHERE = "fl.example.org:9093"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, TokenRefused),
        (403, RoleTooSmall),
        (429, HubUnreachable),
        (502, HubUnreachable),
        (503, HubUnreachable),
        (413, AnswerOdd),
    ],
)
def test_the_gates_own_answers_have_words(status: int, kind: type) -> None:
    body = answer(status).partition(b"\r\n\r\n")[2]
    assert isinstance(refusal(WHERE, status, body), kind)


def test_the_gates_reason_is_told() -> None:
    body = answer(403, message="needs the role operator").partition(b"\r\n\r\n")[2]
    assert "needs the role operator" in refusal(WHERE, 403, body).fact


def test_a_problem_of_the_desk_is_told_as_it_is() -> None:
    problem = RunUnknown("7", ["12"]).as_problem()
    error = refusal(WHERE, 404, json.dumps(problem).encode())
    assert error.as_problem() == problem


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"a": 1}', b"\xff"])
def test_what_nobody_of_ours_says_is_odd(body: bytes) -> None:
    error = refusal(WHERE, 500, body)
    assert isinstance(error, AnswerOdd)
    assert WHERE in error.fact


def test_a_certificate_that_does_not_fit_is_told_however_deep_it_lies() -> None:
    cause = ssl.SSLCertVerificationError()
    cause.verify_message = "unable to get local issuer certificate"
    outer = ConnectionError("ended")
    outer.__context__ = RuntimeError("inner")
    outer.__context__.__cause__ = cause
    error = broken(WHERE, outer)
    assert isinstance(error, HubUntrusted)
    assert "unable to get local issuer" in error.fact


def test_what_else_breaks_is_an_unreachable_hub() -> None:
    for cause in (
        ConnectionRefusedError(111, "Connection refused"),
        TimeoutError(),
        ssl.SSLError(),
    ):
        assert isinstance(broken(WHERE, cause), HubUnreachable)
    assert (
        "Connection refused"
        in broken(WHERE, ConnectionRefusedError(111, "Connection refused")).fact
    )
