"""The parent of tasks in one environment: has everything loaded, forks, and sees them end.

Runs with the environment's own Python. Single-threaded, and it never touches a device, so that
forking is safe; where it turns out not to be, each task gets a fresh process instead.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from umbel.exec import bootstrap, cgroups, child, link
from umbel.exec.environments import READY, hold
from umbel.exec.frameworks import declared_packages
from umbel.exec.link import Broken, Order
from umbel.flower import tasks

FIRST_LEASE_S = 60.0
_PATIENCE_S = 10.0
_LISTENER = 3
_HIDDEN = "CUDA_VISIBLE_DEVICES"
_ALWAYS = ("numpy", "numpy.random")  # the second is loaded late, and seeding it takes 10 ms then


@dataclass(slots=True)
class _Running:
    connection: socket.socket
    pidfd: int
    group: cgroups.TaskGroup | None


class Warm:
    """Serves until nobody needs it any more."""

    def __init__(self, listener: socket.socket, path: Path, *, fork: bool) -> None:
        self._listener = listener
        self._path = path
        self._fork = fork
        self._packages = declared_packages(Path(sys.prefix)) if fork else frozenset()
        self._tried: set[str] = set()
        self._foreign: frozenset[str] = frozenset()  # top-level modules that only the app wants
        self._running: dict[int, _Running] = {}
        self._leases: set[socket.socket] = set()
        self._own = cgroups.own_group(Path("/proc/self/cgroup").read_text())
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve; end with the last lease, and every task with us."""
        signal.signal(signal.SIGTERM, _leave)
        if self._fork:
            self._load(_ALWAYS)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        deadline_s: float | None = time.monotonic() + FIRST_LEASE_S
        try:
            while self._leases or deadline_s is not None:
                wait_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
                ready = self._selector.select(wait_s)
                for key, _ in ready:
                    key.data()
                if self._leases or not ready:
                    deadline_s = None
        finally:
            self._path.unlink(missing_ok=True)
            self._path.with_suffix(".unsafe").unlink(missing_ok=True)
            for pid in self._running:
                _signal_group(pid, signal.SIGKILL)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            connection, _ = self._listener.accept()
            if link.peer_user(connection) != os.getuid():
                connection.close()
                return
            connection.settimeout(_PATIENCE_S)
            try:
                head, given = link.receive(connection)
                if head.get("lease"):
                    self._lease(connection)
                else:
                    self._start(connection, link.unpack_order(head, given))
            except Broken:
                connection.close()  # somebody only looked whether we are there
            except (OSError, ValueError, KeyError, TypeError) as error:
                print(f"an order was not carried out: {error!r}", flush=True)  # noqa: T201
                connection.close()

    def _lease(self, connection: socket.socket) -> None:
        self._leases.add(connection)

        def ended() -> None:
            if not _received(connection):
                self._selector.unregister(connection)
                self._leases.discard(connection)
                connection.close()

        self._selector.register(connection, selectors.EVENT_READ, ended)

    def _start(self, connection: socket.socket, order: Order) -> None:
        if self._fork:
            self._load(order.preload)
            tasks.premake(order.settings.ca.read_bytes())
        memory = order.settings.per_task.memory
        name = f"{os.getpid()}-{order.task.task_id}"
        group = cgroups.make(name, memory, self._own) if memory else None
        pid = self._forked(order, group) if self._fork else _spawned(order)
        pidfd = os.pidfd_open(pid)
        self._running[pid] = _Running(connection, pidfd, group)
        self._selector.register(pidfd, selectors.EVENT_READ, lambda: self._reap(pid))
        self._selector.register(
            connection, selectors.EVENT_READ, lambda: self._hear(pid, connection)
        )
        with contextlib.suppress(OSError):
            connection.sendall(link.pack({"pid": pid}))

    def _forked(self, order: Order, group: cgroups.TaskGroup | None) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            child.run(order, parent, group, self._foreign)
        return pid

    def _hear(self, pid: int, connection: socket.socket) -> None:
        """A byte asks the task to end; an end of the connection kills it."""
        if pid not in self._running:
            return  # it ended in the same moment
        said = _received(connection)
        _signal_group(pid, signal.SIGTERM if said else signal.SIGKILL)
        if not said:
            self._selector.unregister(connection)

    def _reap(self, pid: int) -> None:
        running = self._running.pop(pid)
        _signal_group(pid, signal.SIGKILL)  # what the app left behind; the id is still taken
        _, status, usage = os.wait4(pid, 0)
        self._selector.unregister(running.pidfd)
        os.close(running.pidfd)
        self._end_strays()
        told = {
            "code": os.waitstatus_to_exitcode(status),
            "peak": usage.ru_maxrss << 10,
            "full": running.group is not None and running.group.was_full(),
        }
        if running.group is not None:
            running.group.remove()
        with contextlib.suppress(KeyError):
            self._selector.unregister(running.connection)
        with contextlib.suppress(OSError):
            running.connection.sendall(link.pack(told))
        running.connection.close()

    def _end_strays(self) -> None:
        """A child that is no task lost its task: living ones keep their own."""
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        while strays := {int(n) for n in children.read_text().split()} - self._running.keys():
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _load(self, names: tuple[str, ...]) -> None:
        """Import what tasks will need; never the app's own modules, and no device is seen."""
        new = [n for n in names if n not in self._tried and self._is_declared(n)]
        if not new:
            return
        shown, before = os.environ.get(_HIDDEN), _top_level()
        os.environ[_HIDDEN] = ""
        try:
            for name in new:
                _import(name)
        finally:
            self._tried.update(new)
            os.environ.pop(_HIDDEN)
            if shown is not None:
                os.environ[_HIDDEN] = shown
        self._foreign |= _top_level() - before
        gc.collect()
        gc.freeze()  # the collector does not touch, and so does not copy, what is loaded
        why = _unsafe()
        if why:
            self._fork = False
            print(f"each task gets a fresh process: {why}", flush=True)  # noqa: T201
            self._path.with_suffix(".unsafe").write_text(f"{why}\n")

    def _is_declared(self, name: str) -> bool:
        return name in _ALWAYS or name.partition(".")[0] in self._packages


def _top_level() -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in sys.modules)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(64)
    except OSError:
        return b""


def _import(name: str) -> None:
    try:
        import_module(name)
    except Exception as error:  # noqa: BLE001  # a package of others: the task will tell it better
        print(f"{name} was not loaded: {error!r}", flush=True)  # noqa: T201


def _unsafe() -> str:
    """Say why forking would not be safe; a trial tells, for some libraries stop their threads."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "a package initialised CUDA while it was imported"
    threads = len(list(Path("/proc/self/task").iterdir()))
    return f"{threads - 1} threads run after the imports" if threads > 1 else ""


def _spawned(order: Order) -> int:
    """Start a fresh process, which reads its order from a file that has no name."""
    with open(os.memfd_create("order"), "w+b") as file:  # noqa: PTH123  # it has no path
        file.write(order.pack())
        file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", bootstrap.__file__, "task"], stdin=file, start_new_session=True
        )
    process.returncode = 0  # we reap it ourselves
    return process.pid


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _leave(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


def settle(env: MutableMapping[str, str], prefix: str) -> None:
    """Let what tasks start find this environment, and not the one that Umbel lives in."""
    for name in ("PYTHONHOME", "PYTHONPATH"):
        env.pop(name, None)
    env["VIRTUAL_ENV"] = prefix
    env["PATH"] = os.pathsep.join((f"{prefix}/bin", env.get("PATH", os.defpath)))


def main() -> None:
    """Serve on the inherited socket: its path, and `warm` or `fresh`, are the arguments."""
    settle(os.environ, sys.prefix)
    path, fork = Path(sys.argv[2]), sys.argv[3] == "warm"
    os.set_inheritable(_LISTENER, False)
    child.become_subreaper()
    if (Path(sys.prefix) / READY).exists():  # else it is the executor's own
        hold(Path(sys.prefix))
    path.with_suffix(".unsafe").unlink(missing_ok=True)
    if fork:
        tasks.prepare()
    Warm(socket.socket(fileno=_LISTENER), path, fork=fork).run()
