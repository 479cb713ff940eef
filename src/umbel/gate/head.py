"""Reads the head of a request, so strictly that nobody behind us can read it differently."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import httptools

END = b"\r\n\r\n"

_PASSED = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"baggage",
        b"content-type",
        b"traceparent",
        b"tracestate",
        b"user-agent",
    }
)
_READ = frozenset({"authorization", "connection", "content-length", "expect", "host"})
_KEPT = _PASSED | {name.encode() for name in _READ}
_OURS = b"flwr-"  # every field that begins so is Flower's
_NEVER = frozenset({b"transfer-encoding", b"upgrade", b"http2-settings", b"trailer"})
_LENGTH_DIGITS = 15
_PRINTABLE = bytes(range(0x20, 0x7F))


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
        first = f"{self.method} {self.target} HTTP/1.1"
        lines = [first, "host: umbel", f"content-length: {self.length}"]
        lines += [f"{name}: {value}" for name, value in self.fields.items() if name not in _READ]
        lines.append("\r\n")
        return "\r\n".join(lines).encode("ascii")

    def for_desk(self, speaker: dict[str, str]) -> Head:
        """Say who speaks; of what the client says about itself, only the usual is kept."""
        usual = {name: value for name, value in self.fields.items() if name.encode() in _PASSED}
        return replace(self, fields=usual | speaker)


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
    text = raw.replace(b"\r\n", b"")
    if len(raw) - len(text) > (count + 2) * 2:
        raise Malformed("too many fields")
    if b"\n " in raw or text.translate(None, _PRINTABLE):
        raise Malformed("folded line, or odd characters")
    seen = _Collector()
    parser: Any = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade as error:
        raise Malformed("upgrade") from error
    except httptools.HttpParserError as error:
        raise Malformed("not HTTP/1.1") from error
    method = parser.get_method()
    if not raw.startswith(b"%s %s HTTP/1.1\r\n" % (method, seen.target)):
        raise Malformed("request line")
    return _head(method.decode(), seen.target.decode(), _fields(seen.lines))


def _fields(lines: list[tuple[bytes, bytes]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in lines:
        lower = name.lower()
        if lower in _KEPT or lower[:5] == _OURS:
            key = lower.decode()
            if key in fields:
                raise Malformed("a field twice")
            fields[key] = value.decode()
        elif lower in _NEVER:
            raise Malformed(lower.decode())
    return fields


def _head(method: str, target: str, fields: dict[str, str]) -> Head:
    if "host" not in fields:
        raise Malformed("no host")
    length = fields.get("content-length", "0")
    if not length.isdecimal() or len(length) > _LENGTH_DIGITS:
        raise Malformed("content-length")
    expect = fields.get("expect", "").lower()
    if expect not in ("", "100-continue"):
        raise Malformed("expect")
    return Head(
        method=method,
        target=target,
        length=int(length),
        keeps="close" not in fields.get("connection", "").lower(),
        continues=bool(expect),
        fields=fields,
    )
