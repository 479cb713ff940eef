from __future__ import annotations

import pytest
from testbed.pods.relay import asked_for


def test_a_connect_says_where_to() -> None:
    head = b"CONNECT 10.81.0.1:10250 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert asked_for(head) == ("10.81.0.1", 10250)


def test_an_address_in_brackets_is_taken_out_of_them() -> None:
    assert asked_for(b"CONNECT [fd00::1]:443 HTTP/1.1\r\n\r\n") == ("fd00::1", 443)


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\n", b"CONNECT\r\n", b"CONNECT a:b HTTP/1.1\r\n"]
)
def test_anything_else_is_refused(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"CONNECT|invalid literal"):
        asked_for(head)
