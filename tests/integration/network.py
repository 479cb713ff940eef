"""A network of our own, with nothing but loopback: nobody else takes ports there."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

CAN_PART = os.geteuid() == 0
_NEW_NETWORK = 0x4000_0000  # CLONE_NEWNET
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP = 0x1  # IFF_UP
_HERE = Path("/proc/thread-self/ns/net")
_libc = ctypes.CDLL(None, use_errno=True)


class Network:
    """Where this thread can go, and whatever it starts there stays. Without root it goes nowhere."""

    def __init__(self) -> None:
        with _back():
            if CAN_PART:
                _done(_libc.unshare(_NEW_NETWORK))
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                    fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
            self._inside = _HERE.open()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside; afterwards, where we were."""
        with _back():
            _go(self._inside)
            yield

    def close(self) -> None:
        """Let it go; it ends with its last process."""
        self._inside.close()


@contextmanager
def _back() -> Iterator[None]:
    """Come back from wherever one went."""
    with _HERE.open() as before:
        try:
            yield
        finally:
            _go(before)


def _go(where: TextIO) -> None:
    if CAN_PART:
        _done(_libc.setns(where.fileno(), _NEW_NETWORK))


def _done(answer: int) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
