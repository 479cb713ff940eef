"""What an executor and a parent say to each other, over a Unix socket.

One connection a task, and one that says "I need you" as long as it is open. The executor sends one
order. The parent answers with the process id, and later with how the process ended. A byte asks the
task to end; a closed connection kills it.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from umbel.exec.settings import ExecSettings, from_json, to_json
from umbel.flower.tasks import Task

ASK_TO_END = b"T"
_HEAD = struct.Struct(">II")
_LIMIT = 1 << 31
_CREDENTIALS = struct.Struct("3i")


class Broken(Exception):  # a passing state, caught where the connection is
    """The other side is gone, or speaks another language."""


@dataclass(frozen=True, slots=True)
class Order:
    """A task to run: everything that its process needs."""

    settings: ExecSettings
    task: Task
    preload: tuple[str, ...] = ()  # modules that the app imports
    own: tuple[str, ...] = ()  # modules that the app has, which go before others of that name
    installed: bool = False  # the app's files are there already
    devices: tuple[str, ...] | None = None
    input: bytes = b""  # what the Runtime API gave for the task

    def pack(self) -> bytes:
        """Write the order."""
        head = {
            "settings": to_json(self.settings),
            "task": asdict(self.task),
            "preload": self.preload,
            "own": self.own,
            "installed": self.installed,
            "devices": self.devices,
        }
        return pack(head, self.input)


LEASE: Mapping[str, Any] = {"lease": True}


def unpack_order(head: Mapping[str, Any], given: bytes) -> Order:
    """Read an order."""
    devices = head.get("devices")
    return Order(
        from_json(head["settings"]),
        Task(**head["task"]),
        tuple(head.get("preload", ())),
        tuple(head.get("own", ())),
        bool(head.get("installed")),
        None if devices is None else tuple(devices),
        given,
    )


def pack(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Write one message."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(len(text), len(body)), text, body))


def receive(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    """Read one message; waits for the whole of it."""
    size, more = _HEAD.unpack(_exactly(connection, _HEAD.size))
    if size > _LIMIT or more > _LIMIT:
        raise Broken("not a message")
    head: dict[str, Any] = json.loads(_exactly(connection, size))
    return head, bytes(_exactly(connection, more))


def read(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Read one message that is there as a whole."""
    size, more = _HEAD.unpack_from(data)
    end = _HEAD.size + size
    head: dict[str, Any] = json.loads(data[_HEAD.size : end])
    return head, data[end : end + more]


def _exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if not count:
            raise Broken("hung up")
        got += count
    return data


class Inbox:
    """Collects bytes until they are messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Give the messages that are complete now; those of a parent have no body."""
        self._data += piece
        while len(self._data) >= _HEAD.size:
            size, more = _HEAD.unpack_from(self._data)
            end = _HEAD.size + size + more
            if len(self._data) < end:
                return
            head: dict[str, Any] = json.loads(self._data[_HEAD.size : _HEAD.size + size])
            del self._data[:end]
            yield head


def peer_user(connection: socket.socket) -> int:
    """Say whose process is at the other end."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(raw)[1]
    return user
