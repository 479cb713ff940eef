"""Unix sockets wherever the folder is: a socket's path may have 107 bytes, a folder's has more."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[str]:
    """Give a short name of `path` to bind or connect to, good while the block lasts."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def private_listener(path: Path) -> socket.socket:
    """Listen on a Unix socket that only the owner can open; it appears when it answers."""
    hidden = path.with_name(f".{path.name}")
    hidden.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with reachable(hidden) as short:
            listener.bind(short)
    finally:
        os.umask(before)
    listener.listen(512)
    hidden.replace(path)
    return listener


def is_answered(path: Path) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            with reachable(path) as short:
                probe.connect(short)
        except OSError:
            return False
    return True
