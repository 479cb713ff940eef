"""Tells an executor that there is a task, so that it need not ask again and again."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from umbel.sockets import reachable


class Poker:
    """Pokes the executor that listens on a datagram socket; nobody there is no harm."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def __call__(self) -> None:
        with contextlib.suppress(OSError), reachable(self._path) as short:
            self._socket.sendto(b"!", short)


def poked(path: Path) -> socket.socket:
    """Listen for pokes; only the owner can poke."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.setblocking(False)
    before = os.umask(0o177)
    try:
        with reachable(path) as short:
            listener.bind(short)
    finally:
        os.umask(before)
    return listener


def drain(listener: socket.socket) -> None:
    """Forget the pokes so far."""
    with contextlib.suppress(BlockingIOError):
        while listener.recv(16):
            pass
