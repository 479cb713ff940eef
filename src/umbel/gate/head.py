"""Reads the head of a request, so strictly that nobody behind us can read it differently."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import httptools

END = b"\r\n\r\n"

_PASSED = frozenset(
    {
        "accept",
        "accept-encoding",
        "baggage",
        "content-type",
        "traceparent",
        "tracestate",
        "user-agent",
    }
)
_READ = frozenset({"authorization", "connection", "content-length", "expect", "host"})
_KEPT = _PASSED | _READ
_NEVER = frozenset({"transfer-encoding", "upgrade", "http2-settings", "trailer"})
_LENGTH = re.compile(r"[0-9]{1,15}")
_PLAIN = bytes((*range(0x20, 0x7F), 0x0D, 0x0A))  # printable ASCII and line ends


class Malformed(ValueError):
    """The head is one that no Flower client sends; the text is for the audit log only."""


@dataclass(slots=True)
class Head:
    """A request without its body. `fields` holds what is read or passed on, once each."""

    method: str
    target: str
    length: int = 0
    keeps: bool = True  # the connection is to stay open
    continues: bool = False  # the client waits for "100 Continue"
    fields: dict[str, str] = field(default_factory=dict)

    def for_upstream(self) -> bytes:
        """Write the head anew: our own framing and host, and only what is meant for Flower."""
        lines = [f"POST {self.target} HTTP/1.1", "host: umbel", f"content-length: {self.length}"]
        lines += [f"{name}: {value}" for name, value in self.fields.items() if name not in _READ]
        lines.append("\r\n")
        return "\r\n".join(lines).encode("ascii")


class _Collector:
    """What httptools calls back."""

    def __init__(self) -> None:
        self.target = b""
        self.lines: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.lines.append((name, value))


def parse(raw: bytes, *, count: int) -> Head:
    """Read a whole head, `END` included, with at most `count` fields."""
    ends = raw.count(b"\r\n")
    if ends > count + 2 or raw.count(b"\n") != ends or raw.count(b"\r") != ends:
        raise Malformed("line ends")
    if b"\n " in raw or raw.translate(None, _PLAIN):
        raise Malformed("folded line, or odd characters")
    seen = _Collector()
    parser: Any = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade as error:
        raise Malformed("upgrade") from error
    except httptools.HttpParserError as error:
        raise Malformed("not HTTP/1.1") from error
    method = parser.get_method().decode("latin-1")
    if not raw.startswith(b"%s %s HTTP/1.1\r\n" % (method.encode(), seen.target)):
        raise Malformed("request line")
    return _head(method, seen.target, _fields(seen.lines))


def _fields(lines: list[tuple[bytes, bytes]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in lines:
        key = name.decode().lower()
        if key in _KEPT or key.startswith("flwr-"):
            if key in fields:
                raise Malformed("a field twice")
            fields[key] = value.decode()
        elif key in _NEVER:
            raise Malformed(key)
    return fields


def _head(method: str, target: bytes, fields: dict[str, str]) -> Head:
    if "host" not in fields:
        raise Malformed("no host")
    length = fields.get("content-length", "0")
    if not _LENGTH.fullmatch(length):
        raise Malformed("content-length")
    expect = fields.get("expect", "").lower()
    if expect not in ("", "100-continue"):
        raise Malformed("expect")
    return Head(
        method=method,
        target=target.decode("latin-1"),
        length=int(length),
        keeps="close" not in fields.get("connection", "").lower(),
        continues=bool(expect),
        fields=fields,
    )
