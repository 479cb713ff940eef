"""Moves large bodies in large pieces.

TLS gives and takes sixteen kilobytes at a time. httpcore copies what is left of a body after each
piece that it sends, and hands each piece that it gets through the whole of its machinery. Here what is
left is a view, and what has arrived already is taken along.
"""

from __future__ import annotations

import functools
import ssl
from importlib import import_module
from typing import Any

from umbel.flower.fast import guard

RECORD_BYTES = 16 << 10  # a full one says that more follows
LARGE_BYTES = 64 << 10
PIECE_BYTES = 1 << 20


def install() -> None:
    """Let the clients of this process move large pieces."""
    stream: Any = import_module("httpcore._backends.sync").SyncStream
    stream.write = _of_views(stream.write)
    stream.read = _taking_along(stream.read)


def _of_views(stock: Any) -> Any:
    @functools.wraps(stock)
    def write(self: Any, buffer: bytes, timeout: float | None = None) -> None:
        stock(self, memoryview(buffer) if len(buffer) > LARGE_BYTES else buffer, timeout)

    return write


def _taking_along(stock: Any) -> Any:
    @functools.wraps(stock)
    def read(self: Any, max_bytes: int, timeout: float | None = None) -> bytes:
        first: bytes = stock(self, max_bytes, timeout)
        if len(first) != RECORD_BYTES or not isinstance(self._sock, ssl.SSLSocket):
            return first
        guard.took(guard.Way.STREAMS)
        pieces, size = [first], len(first)
        self._sock.settimeout(0)
        while size < PIECE_BYTES:
            try:
                piece = self._sock.recv(RECORD_BYTES)
            except OSError:  # nothing yet, or an end: the next read says what it is
                break
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    return read
