"""The parent of all Flower processes: has Flower loaded, forks on request, outlives the daemon.

One request a connection, one line of JSON each way. `spawn` starts a unit, `errand` runs a short call
in a child that answers for itself. The nursery watches the daemon as the daemon watches the nursery:
whichever is killed, the other starts it again.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from umbel import __version__
from umbel.agent import processes
from umbel.agent.errands import ERRANDS
from umbel.errors import UmbelError
from umbel.exec.dispatcher import Dispatcher
from umbel.exec.settings import from_json
from umbel.flower import launch
from umbel.sockets import is_answered, private_listener

_REQUEST_LIMIT = 1 << 20
_DONE = object()
_RESTARTS_PER_MINUTE = 5


class Nursery:
    """Single-threaded: nothing here may block, every wait is in one `select`."""

    def __init__(self, listener: socket.socket, loading: Iterator[None]) -> None:
        self._listener = listener
        self._loading: Iterator[None] | None = loading
        self._units: dict[int, Path] = {}  # process id: where to note how it ended
        self._errands: set[int] = set()
        self._parents: set[int] = set()  # of tasks, in environments of apps
        self._daemon: tuple[int, list[str]] | None = None  # pidfd, command that starts it again
        self._restarts: list[float] = []
        self._stopping = False
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until told to stop; units live on, that is the point."""
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop)
        while not self._stopping:
            fds: list[Any] = [self._listener, self._wake]
            if self._daemon is not None:
                fds.append(self._daemon[0])
            readable, _, _ = select.select(fds, [], [], 0 if self._loading else None)
            if not readable:
                self._load_more()
                continue
            if self._wake in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._reap()
            if self._listener in readable:
                self._answer()
            if self._daemon is not None and self._daemon[0] in readable:
                self._restart_daemon()

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _answer(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(5)
                with contextlib.suppress(TimeoutError, ValueError, OSError):
                    self._serve(connection, _read(connection))

    def _serve(self, connection: socket.socket, order: Mapping[str, Any]) -> None:
        match order.get("op"):
            case "spawn":
                _write(connection, self._spawn(order))
            case "parent":
                self._start_parent(order)
                _write(connection, {})
            case "errand":
                self._send_on_errand(connection, order)
            case "watch":
                self._daemon = (os.pidfd_open(int(order["pid"])), list(order["command"]))
                _write(connection, {"pid": os.getpid()})
            case "hello":
                _write(connection, {"pid": os.getpid(), "umbel": __version__})
            case "forget":  # the daemon ends because it was told to
                self._daemon = None
                self._stopping = bool(order.get("stop"))
                _write(connection, {})

    def _load_more(self) -> None:
        """Load the next module; when all are there, they stay shared with every child."""
        assert self._loading is not None  # noqa: S101  # the caller looked
        if next(self._loading, _DONE) is _DONE:
            self._loading = None
            gc.collect()
            gc.freeze()  # the collector does not touch, and so does not copy, what is loaded

    def _load_all(self) -> None:
        while self._loading is not None:
            self._load_more()

    def _spawn(self, order: Mapping[str, Any]) -> dict[str, Any]:
        if order["kind"] not in ("superlink", "program"):
            self._load_all()
        pid = os.fork()
        if pid == 0:
            self._become(order)
        self._units[pid] = Path(order["exit"])
        process = processes.identify(pid)
        return {"pid": pid, "started": process.started if process else 0}

    def _start_parent(self, order: Mapping[str, Any]) -> None:
        """Start the parent of an app's tasks, unless one answers; it inherits its socket."""
        path = Path(order["socket"])
        if is_answered(path):
            return
        argv = list(order["argv"])
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with private_listener(path) as listener:
            files = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(order["log"]), write, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, listener.fileno(), 3),
            ]
            try:
                pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=files, setsid=True)
            except OSError:
                path.unlink(missing_ok=True)
                raise
        self._parents.add(pid)

    def _become(self, order: Mapping[str, Any]) -> NoReturn:
        code: Any = 1
        try:
            self._leave()
            _redirect(Path(order["log"]))
            os.environ.update(order["env"])
            os.chdir(order["cwd"])
            processes.name_self(order["title"])
            run_unit(order["kind"], order["settings"])
            code = 0
        except SystemExit as end:
            code = end.code
        except BaseException:  # noqa: BLE001  # the end of a forked process: nobody else can tell
            import traceback  # noqa: PLC0415  # the unit's log is the only place for it

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else int(bool(code)))

    def _leave(self, keep: int = -1) -> None:
        """Give up, in a child, what belongs to the nursery."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for fd in (int(entry.name) for entry in Path("/proc/self/fd").iterdir()):
            if fd > 2 and fd != keep:  # noqa: PLR2004  # standard streams stay
                with contextlib.suppress(OSError):
                    os.close(fd)

    def _send_on_errand(self, connection: socket.socket, order: Mapping[str, Any]) -> None:
        self._load_all()
        pid = os.fork()
        if pid:
            self._errands.add(pid)
            return
        try:
            self._leave(keep=connection.fileno())
            _write(connection, run_errand(order["name"], order["order"]))
        finally:
            os._exit(0)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._errands.discard(pid)
            note = self._units.pop(pid, None)
            if note is not None:
                with contextlib.suppress(OSError):
                    note.write_text(f"{pid} {os.waitstatus_to_exitcode(status)}\n")
            if note is not None or pid in self._parents:
                self._parents.discard(pid)
                self._end_orphans()

    def _end_orphans(self) -> None:
        """A child that is neither unit nor errand lost its unit: it goes too."""
        known = self._units.keys() | self._errands | self._parents
        for pid in processes.children_of(os.getpid()) - known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _restart_daemon(self) -> None:
        assert self._daemon is not None  # noqa: S101  # the caller looked
        pidfd, command = self._daemon
        os.close(pidfd)
        self._daemon = None
        now_s = time.monotonic()
        self._restarts = [at_s for at_s in self._restarts if now_s - at_s < 60]  # noqa: PLR2004
        if len(self._restarts) < _RESTARTS_PER_MINUTE:
            self._restarts.append(now_s)
            pid = os.posix_spawn(command[0], command, os.environ, setsid=True)
            self._errands.add(pid)
            self._daemon = (os.pidfd_open(pid), command)


def run_unit(kind: str, settings: Mapping[str, Any]) -> None:
    """Be the unit, in this process, until it ends."""
    match kind:
        case "superlink":
            launch.superlink(settings["argv"], Path(settings["listen"]), Path(settings["wake"]))
        case "supernode":
            launch.supernode(settings["argv"], Path(settings["wake"]), Path(settings["ready"]))
        case "exec":
            processes.become_subreaper()
            Dispatcher(from_json(settings)).run()
        case "program":
            argv = list(settings["argv"])
            os.execv(argv[0], argv)  # noqa: S606  # a list, no shell
        case _:
            raise ValueError(kind)


def run_errand(name: str, order: Mapping[str, Any]) -> dict[str, Any]:
    """Do the errand; what went wrong is part of the answer."""
    try:
        return {"value": ERRANDS[name](order)}
    except UmbelError as error:
        return {"problem": error.as_problem()}
    except OSError as error:
        return {"problem": {"code": "U214", "detail": f"{name}: {error}", "hint": "umbel doctor"}}


def _redirect(log: Path) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    os.close(nothing)


def _read(connection: socket.socket) -> dict[str, Any]:
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = connection.recv(65536)
        if not piece or len(data) > _REQUEST_LIMIT:
            raise ValueError("not a request")
        data += piece
    order: dict[str, Any] = json.loads(data)
    return order


def _write(connection: socket.socket, answer: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


def main() -> None:
    """Load Flower, then serve on the socket given as the only argument."""
    path = Path(sys.argv[1])
    processes.name_self("umbel-nursery")
    os.umask(0o077)  # also what Flower writes is for the owner alone
    processes.become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for _ in launch.preload(launch.SUPERLINK_MODULES):
        pass
    listener = private_listener(path)
    listener.setblocking(False)
    Nursery(listener, launch.preload(launch.OTHER_MODULES)).run()
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


if __name__ == "__main__":
    main()
