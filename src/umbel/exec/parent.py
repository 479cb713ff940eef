"""The executor's loop: claim a task, start it, see it end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from umbel.exec import child
from umbel.exec.recorder import EventFile, now_text
from umbel.exec.settings import ExecSettings, run_folder
from umbel.files import ensure_private_folder, write_private
from umbel.flower.fast.poke import drain, poked
from umbel.flower.tasks import Task, TaskSource, Unreachable, report_failure
from umbel.model.event import TaskDied
from umbel.model.unit import HUB

STOP_GRACE_S = 2.0
_UNREACHABLE_WAIT_S = 0.25


@dataclass(frozen=True, slots=True)
class _Running:
    task: Task
    pid: int
    pidfd: int
    deadline_s: float


class Parent:
    """Single-threaded, so that forking is safe; everything it waits for is a file descriptor."""

    def __init__(self, settings: ExecSettings) -> None:
        self._settings = settings
        self._running: dict[int, _Running] = {}
        self._late: set[int] = set()  # killed because their time was over
        self._stopping = False
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until told to stop; then end every task."""
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        settings = self._settings
        left = _left_behind(settings.tasks)
        shutil.rmtree(settings.tasks, ignore_errors=True)
        ensure_private_folder(settings.tasks)
        self._pokes = poked(settings.wake)
        source = TaskSource(settings.address, settings.ca, settings.secret)
        for task in left:
            report_failure(
                settings.address, settings.ca.read_bytes(), task, "the executor was killed"
            )
        while not self._stopping:
            self._wait(self._serve_once(source))
            self._reap()
        self._end_all()

    def _serve_once(self, source: TaskSource) -> float:
        """Claim and start at most one task; gives how long to wait before the next look."""
        drain(self._pokes)
        try:
            task = source.acquire()
        except Unreachable:
            return _UNREACHABLE_WAIT_S
        if task is None:
            return self._settings.poll_s
        self._start(task)
        return 0.0

    def _start(self, task: Task) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = self._fork(task) if self._settings.warm else self._spawn(task)
        self._running[pid] = _Running(
            task, pid, os.pidfd_open(pid), time.monotonic() + self._settings.task_timeout_s
        )
        # With the token, so that the next executor can answer for a task that dies with this one.
        note = {"pid": pid, "run_id": str(task.run_id), "task": asdict(task)}
        write_private(self._settings.tasks / str(pid), json.dumps(note))
        print(f"{now_text()} started {task!r} as process {pid}", flush=True)  # noqa: T201

    def _fork(self, task: Task) -> int:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            child.run(self._settings, task)
        return pid

    def _spawn(self, task: Task) -> int:
        process = subprocess.Popen(
            [sys.executable, "-m", "umbel.exec.child"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101  # asked for above
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(child.to_pipe(self._settings, task))
        process.returncode = 0  # we reap it ourselves
        return process.pid

    def _wait(self, seconds: float) -> None:
        fds = [self._wake, self._pokes.fileno(), *(r.pidfd for r in self._running.values())]
        ends = [r.deadline_s - time.monotonic() for r in self._running.values()]
        readable, _, _ = select.select(
            fds, [], [], max(0.0, min([seconds, *ends])) if ends else seconds
        )
        if self._wake in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 512)

    def _reap(self) -> None:
        now_s = time.monotonic()
        for running in list(self._running.values()):
            if now_s > running.deadline_s and running.pid not in self._late:
                self._late.add(running.pid)
                self._report(running, f"ran longer than {self._settings.task_timeout_s:g} s")
                _signal_group(running.pid, signal.SIGKILL)
            pid, status = os.waitpid(running.pid, os.WNOHANG)
            if pid:
                self._forget(running, os.waitstatus_to_exitcode(status))

    def _forget(self, running: _Running, code: int) -> None:
        _signal_group(running.pid, signal.SIGKILL)  # what the app left behind
        os.close(running.pidfd)
        del self._running[running.pid]
        (self._settings.tasks / str(running.pid)).unlink(missing_ok=True)
        print(f"{now_text()} ended {running.task!r} with {code}", flush=True)  # noqa: T201
        self._end_strays()
        if running.pid in self._late:
            self._late.discard(running.pid)  # it is told already
        elif code < 0:
            self._report(running, f"was killed by {signal.Signals(-code).name}")
        elif code > 1:  # Flower itself ends with 0 or 1, and has told why
            self._report(running, f"ended with exit code {code}")

    def _end_strays(self) -> None:
        """What a task's children left to us ends with it; at the hub it may be another run's."""
        if self._settings.site == HUB:
            return
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        for pid in {int(number) for number in children} - self._running.keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _report(self, running: _Running, cause: str) -> None:
        folder: Path = run_folder(self._settings, running.task.run_id)
        EventFile(folder / child.EVENTS).append(
            TaskDied(str(running.task.run_id), now_text(), self._settings.site, cause)
        )
        settings = self._settings
        told = f"the task's process {cause}"
        report_failure(settings.address, settings.ca.read_bytes(), running.task, told)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _end_all(self) -> None:
        for running in self._running.values():
            _signal_group(running.pid, signal.SIGTERM)
        deadline_s = time.monotonic() + STOP_GRACE_S
        while self._running and time.monotonic() < deadline_s:
            self._wait(0.1)
            self._reap()
        for running in list(self._running.values()):
            _signal_group(running.pid, signal.SIGKILL)
            os.waitpid(running.pid, 0)
            self._forget(running, 0)


def _left_behind(folder: Path) -> list[Task]:
    """Find the tasks of a former executor: they died with it."""
    found = []
    for note in sorted(folder.glob("[0-9]*")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found.append(Task(**json.loads(note.read_text())["task"]))
    return found


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
