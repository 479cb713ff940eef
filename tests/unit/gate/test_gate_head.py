from __future__ import annotations

import pytest

from umbel.gate.head import Head, Malformed, parse


def head(*lines: str, first: str = "POST /v1/fleet/get-run HTTP/1.1") -> bytes:
    return "\r\n".join([first, "host: x", *lines, "", ""]).encode("latin-1")


def read(raw: bytes) -> Head:
    return parse(raw, count=20)


def test_an_ordinary_head_is_read() -> None:
    found = read(head("Content-Length: 12", "FLWR-Timestamp: now", "X-Other: gone"))
    assert (found.method, found.target, found.length) == ("POST", "/v1/fleet/get-run", 12)
    assert found.fields["flwr-timestamp"] == "now"
    assert "x-other" not in found.fields


def test_a_head_without_a_length_has_no_body() -> None:
    assert read(head()).length == 0


@pytest.mark.parametrize(
    "raw",
    [
        head("content-length: 3", "transfer-encoding: chunked"),
        head("transfer-encoding: chunked"),
        head("Transfer-Encoding : chunked"),
        head("transfer-encoding: identity"),
        head("transfer_encoding: x", "transfer-encoding:\x0bchunked"),
        head("content-length: 3", "content-length: 3"),
        head("content-length: 3", "Content-Length: 4"),
        head("content-length: 3, 3"),
        head("content-length: +3"),
        head("content-length: -3"),
        head("content-length: 0x3"),
        head("content-length: "),
        head("content-length: 3 3"),
        head("content-length: 9999999999999999"),
        head("flwr-a: b", " folded: content-length"),
        head("flwr-a: b", "\tfolded"),
        head("flwr-a: b\n content"),
        head("flwr-a: b\nflwr-b: c"),
        head("flwr-a: b\rflwr-b: c"),
        head("flwr-a: \0"),
        head("flwr-a: caf\xe9"),
        head("flwr-a: 1", "flwr-a: 2"),
        head("authorization: Bearer a", "Authorization: Bearer b"),
        head("content type: x"),
        head(": x"),
        head("no colon"),
        head("host: y"),
        head("connection: upgrade", "upgrade: websocket"),
        head("upgrade: h2c"),
        head("http2-settings: x"),
        head("expect: a-miracle"),
        head(first="POST /v1/fleet/get-run HTTP/1.0"),
        head(first="POST /v1/fleet/get-run HTTP/2.0"),
        head(first="POST  /v1/fleet/get-run HTTP/1.1"),
        head(first="POST /v1/fleet/get-run  HTTP/1.1"),
        head(first="POST /v1/fleet/get-run"),
        head(first=" POST /v1/fleet/get-run HTTP/1.1"),
        head(first="\r\nPOST /v1/fleet/get-run HTTP/1.1"),
        head(first="post /v1/fleet/get-run HTTP/1.1"),
        head(first="CONNECT /v1/fleet/get-run HTTP/1.1"),
        head(first="PRI * HTTP/2.0"),
        b"\r\n\r\n",
        b"POST /v1/fleet/get-run HTTP/1.1\r\n\r\n",
        b"POST /v1/fleet/get-run HTTP/1.1\nhost: x\n\nPOST / HTTP/1.1\r\nhost: x\r\n\r\n",
        head(*(f"x-{n}: 1" for n in range(20))),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        read(raw)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_another_method_is_read_as_it_is(method: str) -> None:
    assert read(head(first=f"{method} /health HTTP/1.1")).method == method


def test_the_target_is_taken_literally() -> None:
    target = "/v1/control/../fleet/%67et-run?x=1"
    assert read(head(first=f"POST {target} HTTP/1.1")).target == target


def test_only_what_flower_needs_goes_on() -> None:
    lines = {
        "flwr-public-key": True,
        "flwr-anything": True,
        "content-type": True,
        "accept": True,
        "traceparent": True,
        "authorization": False,
        "connection": False,
        "cookie": False,
        "keep-alive": False,
        "proxy-authorization": False,
        "te": False,
        "x-forwarded-for": False,
        "x-forwarded-proto": False,
        "forwarded": False,
        "x-real-ip": False,
    }
    sent = read(head("content-length: 5", *(f"{name}: 1" for name in lines))).for_upstream()
    text = sent.decode()
    assert text.startswith(
        "POST /v1/fleet/get-run HTTP/1.1\r\nhost: umbel\r\ncontent-length: 5\r\n"
    )
    assert text.endswith("\r\n\r\n")
    assert text.count("host:") == text.count("content-length:") == 1
    for name, passes in lines.items():
        assert (f"\r\n{name}: 1\r\n" in text) is passes, name


def test_a_client_may_ask_to_close() -> None:
    assert read(head()).keeps
    assert not read(head("connection: Close")).keeps


def test_a_client_may_wait_for_a_sign() -> None:
    assert read(head("expect: 100-Continue")).continues
