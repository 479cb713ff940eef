"""Finds the parent of an environment, and has it started where there is none."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from umbel.exec import bootstrap, link
from umbel.files import ensure_private_folder
from umbel.sockets import reachable

IDLE_S = 900.0
_NURSERY_S = 30.0
_ATTEMPTS = 3
_TOLD_BYTES = 1_000


def idle(used_s: Mapping[str, float], busy: Collection[str], now_s: float) -> list[str]:
    """Choose the parents that had no task for long and have none now."""
    return [key for key, at_s in used_s.items() if key not in busy and now_s - at_s > IDLE_S]


class NoParent(Exception):  # its words become the task's failure
    """No process of the environment can be started."""


class Parents:
    """The parents that one executor needs; each is shared with all executors of the home."""

    def __init__(self, folder: Path, nursery: Path, *, warm: bool) -> None:
        self._folder = folder
        self._nursery = nursery
        self._mode = "warm" if warm else "fresh"
        self._leases: dict[str, socket.socket] = {}
        self._used_s: dict[str, float] = {}

    def fds(self) -> dict[int, str]:
        """Give the leases to wait on: one that can be read from has ended."""
        return {lease.fileno(): key for key, lease in self._leases.items()}

    def connect(self, key: str, python: Path) -> socket.socket:
        """Give a connection for one task; the parent may still be loading."""
        self._used_s[key] = time.monotonic()
        for _ in range(_ATTEMPTS):
            try:
                if key not in self._leases:
                    self._leases[key] = self._dial(key)
                    self._leases[key].sendall(link.pack(link.LEASE))
                connection = self._dial(key)
                connection.setblocking(False)
            except OSError:
                self.lost(key)
                self._start(key, python)
            else:
                return connection
        raise NoParent(self.last_words(key))

    def lost(self, key: str) -> None:
        """Forget a parent that is gone."""
        lease = self._leases.pop(key, None)
        if lease is not None:
            lease.close()

    def retire(self, busy: Collection[str]) -> None:
        """Give up what had no task for long; a parent that nobody needs frees its memory."""
        now_s = time.monotonic()
        for key in idle({k: self._used_s[k] for k in self._leases}, busy, now_s):
            self.lost(key)

    def close(self) -> None:
        """Need nobody any more; returns when those that nobody else needs are gone."""
        for lease in self._leases.values():
            with contextlib.suppress(OSError):
                lease.shutdown(socket.SHUT_WR)
                lease.settimeout(1)
                lease.recv(1)
            lease.close()
        self._leases.clear()

    def last_words(self, key: str) -> str:
        """Say what the parent logged last."""
        try:
            text = self._log(key).read_bytes()[-_TOLD_BYTES:].decode(errors="replace").strip()
        except OSError:
            text = ""
        return text or "it said nothing"

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}-{self._mode}.sock"

    def _log(self, key: str) -> Path:
        return self._path(key).with_suffix(".log")

    def _dial(self, key: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with reachable(self._path(key)) as short:
                connection.connect(short)
        except OSError:
            connection.close()
            raise
        return connection

    def _start(self, key: str, python: Path) -> None:
        """Ask the nursery: a parent must not end with the executor that needed it first."""
        ensure_private_folder(self._folder)
        path = self._path(key)
        argv = [str(python), "-I", bootstrap.__file__, "warm", str(path), self._mode]
        order = {"op": "parent", "socket": str(path), "log": str(self._log(key)), "argv": argv}
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as nursery:
                nursery.settimeout(_NURSERY_S)
                with reachable(self._nursery) as short:
                    nursery.connect(short)
                nursery.sendall(json.dumps(order).encode() + os.linesep.encode())
                nursery.recv(4096)
        except OSError as error:
            raise NoParent(f"nobody can start one: {error}") from error
