"""Many small requests in one body, many small answers in one body."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

FLEET = "/v1/fleet/umbel-batch"
RUNTIME = "/v1/runtime/umbel-batch"
CONTROL = "/v1/control/umbel-batch"
PATHS = (FLEET, RUNTIME, CONTROL)
MEDIA = "application/vnd.umbel.batch"
LATER = 0  # status of a part that was left for the next batch
LARGE_BYTES = 128 << 10
_HEAD = struct.Struct(">HI")


class Malformed(ValueError):
    """The body is not a batch."""


def pack(parts: Iterable[tuple[int, bytes | memoryview]]) -> bytes:
    """Write (number, bytes) pairs."""
    pieces: list[bytes | memoryview] = []
    for number, content in parts:
        pieces += [_HEAD.pack(number, len(content)), content]
    return b"".join(pieces)


def unpack(body: bytes) -> list[tuple[int, bytes | memoryview]]:
    """Read the pairs back; large ones as views, which cost nothing."""
    parts: list[tuple[int, bytes | memoryview]] = []
    view, at = memoryview(body), 0
    while at < len(body):
        if at + _HEAD.size > len(body):
            raise Malformed("a head is cut off")
        number, size = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if at + size > len(body):
            raise Malformed("a part is cut off")
        part = view[at : at + size]
        parts.append((number, part if size > LARGE_BYTES else bytes(part)))
        at += size
    return parts


# What may stand in a batch, by number: the same order on both sides, for ever.
ROUTES: Sequence[str] = ("push-object", "pull-object", "register-node")
_ALLOWED = {
    FLEET: ("push-object", "pull-object"),
    RUNTIME: ("push-object", "pull-object"),
    CONTROL: ("register-node",),
}


def route_path(batch_path: str, number: int) -> str:
    """Give the path of the route that a part is for."""
    if number >= len(ROUTES) or ROUTES[number] not in _ALLOWED[batch_path]:
        raise Malformed("no such route")
    return batch_path.replace("umbel-batch", ROUTES[number])
