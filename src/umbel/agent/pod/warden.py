"""The first process of a container: starts its program, answers the kubelet, passes signals on.

It imports little, so that it costs little. When the program ends, the container ends.
"""

from __future__ import annotations

import signal
from types import FrameType

ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_early: list[int] = []  # signals that came before there was a program


def _remember(number: int, _frame: FrameType | None) -> None:
    _early.append(number)


if __name__ == "__main__":  # the kernel drops what a first process does not listen for: at once
    for _number in ENDINGS:
        signal.signal(_number, _remember)

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from umbel.agent.pod.places import (
    CONTROL_PORT,
    FLEET_PORT,
    GATE,
    HEALTH_PORTS,
    RUNTIME,
    Places,
)
from umbel.sockets import is_answered

_LOOK_S = 2.0
_REQUEST = 2048
_OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nok\n"
_NO = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno\n"

_RENEWED = {"gate": f"{GATE}/server.crt", "app": f"{RUNTIME}/exec.secret"}  # files by role

Check = Callable[[Places], bool]


def _superlink(places: Places) -> bool:
    return is_answered(places.superlink_socket)


def _gate(_: Places) -> bool:
    return all(_listens(port) for port in (FLEET_PORT, CONTROL_PORT))


def _desk(places: Places) -> bool:
    return is_answered(places.desk_socket)


def _exec(places: Places) -> bool:
    return places.wake.exists()


def _app(places: Places) -> bool:
    """The SuperNode in the other pod answers it."""
    return places.reached.exists()


def _node(places: Places) -> bool:
    """The SuperNode that runs now has connected."""
    try:
        pid = int(places.ready.read_text().split()[0])
        os.kill(pid, 0)
    except (OSError, ValueError, IndexError):
        return False
    return True


CHECKS: dict[str, Check] = {
    "superlink": _superlink,
    "gate": _gate,
    "desk": _desk,
    "exec": _exec,
    "node": _node,
    "app": _app,
}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Warden:
    """Single-threaded; a probe is answered in one step."""

    def __init__(self, role: str, places: Places, command: list[str]) -> None:
        self._role = role
        self._places = places
        self._command = command
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pid = 0
        self._certificate = self._stamp()

    def run(self) -> int:
        """Run until the program ends; gives its exit status."""
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in ENDINGS:
            signal.signal(number, self._pass_on)
        with socket.create_server(("", HEALTH_PORTS[self._role]), backlog=16) as listener:
            process = subprocess.Popen(self._command, start_new_session=True)
            self._pid = process.pid
            while _early:
                self._pass_on(_early.pop(0), None)
            while True:
                readable, _, _ = select.select([listener.fileno(), self._wake], [], [], _LOOK_S)
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 512)
                if listener.fileno() in readable:
                    self._answer(listener)
                self._look()
                if (code := self._reap()) is not None:
                    return code

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if not self._pid:
            _remember(number, frame)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def _answer(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(1)
            _, path, *_ = *connection.recv(_REQUEST).split(b" "), b"", b""
            well = path == b"/healthz" or CHECKS[self._role](self._places)
            connection.sendall(_OK if well else _NO)

    def _look(self) -> None:
        """The gate reads a renewed certificate when told to; an app's executor begins anew."""
        if self._role in _RENEWED and (stamp := self._stamp()) != self._certificate:
            self._certificate = stamp
            self._pass_on(signal.SIGHUP if self._role == "gate" else signal.SIGTERM, None)

    def _stamp(self) -> tuple[int, int]:
        try:
            seen = self._places.at(_RENEWED.get(self._role, GATE)).stat()
        except OSError:
            return (0, 0)
        return (seen.st_mtime_ns, seen.st_ino)

    def _reap(self) -> int | None:
        """Bury who ended: everybody's orphans are children of the first process."""
        ended = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                ended = code if code >= 0 else 128 - code


def main() -> int:
    """Be the first process of the container whose role is the only argument."""
    role = sys.argv[1] if len(sys.argv) == 2 else ""  # noqa: PLR2004  # itself and the role
    if role not in CHECKS:
        sys.stderr.write(f"usage: python -m umbel.agent.pod.warden {'|'.join(CHECKS)}\n")
        return 2
    os.umask(0o077)
    command = [sys.executable, "-m", "umbel.agent.pod.roles", role]
    return Warden(role, Places(Path(os.environ.get("UMBEL_POD_ROOT", "/"))), command).run()


if __name__ == "__main__":
    sys.exit(main())
