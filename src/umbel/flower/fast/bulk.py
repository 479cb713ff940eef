"""Keeps the large field of a message beside it, so that it is copied once and not at every step.

Protobuf copies a field's bytes when the message is made, again when it is written, and again each time
that somebody looks at them. For an object of five megabytes that is most of what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

LARGE_BYTES = 128 << 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MORE, _SEVEN = 0x80, 0x7F
_LONGEST_VARINT = 10
CONTENT = "object_content"


class Unreadable(ValueError):
    """The bytes are not a message with one such field."""


class Bulky:
    """A message with one field beside it; for who reads or writes it, the message itself."""

    __slots__ = ("_message", "_number", "object_content")

    def __init__(self, message: Any, content: bytes) -> None:
        self._message = message
        self._number = message.DESCRIPTOR.fields_by_name[CONTENT].number
        self.object_content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    def SerializeToString(self, **how: Any) -> bytes:  # noqa: N802  # protobuf's name
        """Write it: the field may come last."""
        head = _varint(self._number << 3 | _BYTES) + _varint(len(self.object_content))
        rest: bytes = self._message.SerializeToString(**how)
        return b"".join((rest, head, self.object_content))


def makes(kind: Any) -> Callable[..., Any]:
    """Stand in for a message's class where messages are made: large ones are bulky."""

    def make(**values: Any) -> Any:
        content = values.get(CONTENT, b"")
        if len(content) < LARGE_BYTES:
            return kind(**values)
        del values[CONTENT]
        return Bulky(kind(**values), content)

    return make


def parsed(kind: Any, body: bytes | memoryview, parse: Callable[[bytes], Any] | None = None) -> Any:
    """Read a message; the content of a large one is copied once."""
    read = parse or kind.FromString
    if len(body) < LARGE_BYTES:
        return read(bytes(body))
    number = kind.DESCRIPTOR.fields_by_name[CONTENT].number
    view = memoryview(body)
    try:
        begin, start, end = _only(view, number)
    except (Unreadable, IndexError):
        return read(bytes(body))  # it says what is wrong
    message = read(bytes(view[:begin]) + bytes(view[end:]))
    return Bulky(message, bytes(view[start:end]))


def _only(view: memoryview, number: int) -> tuple[int, int, int]:
    """Find the field, which must be there once: where it begins, its content, its end."""
    found = [span[1:] for span in _fields(view) if span[0] == number]
    if len(found) != 1:
        raise Unreadable
    return found[0]


def _fields(view: memoryview) -> Iterator[tuple[int, int, int, int]]:
    at = 0
    while at < len(view):
        begin = at
        key, at = _read_varint(view, at)
        start, kind = at, key & 7
        if kind == _VARINT:
            _, at = _read_varint(view, at)
        elif kind == _BYTES:
            size, start = _read_varint(view, at)
            at = start + size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise Unreadable
        if at > len(view):
            raise Unreadable
        yield key >> 3, begin, start, at


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        byte = view[at + place]
        value |= (byte & _SEVEN) << 7 * place
        if not byte & _MORE:
            return value, at + place + 1
    raise Unreadable


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > _SEVEN:
        written.append(value & _SEVEN | _MORE)
        value >>= 7
    written.append(value)
    return bytes(written)


def install_client() -> None:
    """Let the clients of this process push bulky requests."""
    module: Any = import_module("flwr.supercore.inflatable.inflatable_protobuf_utils")
    module.PushObjectRequest = makes(module.PushObjectRequest)


def install_server() -> None:
    """Let the handlers of this process answer pulls with bulky answers; only the short way takes them."""
    for name in (
        "flwr.superlink.servicer.fleet.fleet_handlers",
        "flwr.superlink.servicer.runtime.runtime_handlers",
        "flwr.supernode.servicer.runtime.runtime_handlers",
    ):
        module: Any = import_module(name)
        if isinstance(module.PullObjectResponse, type):
            module.PullObjectResponse = makes(module.PullObjectResponse)
