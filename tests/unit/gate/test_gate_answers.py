from __future__ import annotations

import json

import pytest

from umbel.gate.answers import answer, status_line


@pytest.mark.parametrize("status", [401, 403, 413, 429, 502, 503])
def test_an_answer_is_complete(status: int) -> None:
    head, _, body = answer(status).decode().partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert f"content-length: {len(body)}" in head
    assert "connection: close" in head
    assert "server" not in head
    assert json.loads(body)["code"] == status


def test_who_should_come_back_is_told_when() -> None:
    assert b"retry-after: 1\r\n" in answer(503)
    assert b"retry-after: 60\r\n" in answer(429)


def test_a_connection_can_stay_open() -> None:
    assert b"connection" not in answer(503, keeps=True)


def test_an_unheard_status_has_a_line_too() -> None:
    assert status_line(599) == "HTTP/1.1 599 "
