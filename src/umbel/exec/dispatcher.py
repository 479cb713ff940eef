"""The executor's loop: claim a task, have its environment, have it started, see it end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from umbel.exec import child, limits, notes
from umbel.exec.apps import App, Apps
from umbel.exec.asking import Asking
from umbel.exec.builds import Builds, Built
from umbel.exec.environments import Environments, default_root
from umbel.exec.limits import Seat, Seats
from umbel.exec.link import ASK_TO_END, Inbox, Order
from umbel.exec.needs import FabUnreadable
from umbel.exec.parents import NoParent, Parents
from umbel.exec.recorder import EventFile, now_text
from umbel.exec.settings import ExecSettings, run_folder
from umbel.files import ensure_private_folder
from umbel.flower.fast import guard
from umbel.flower.fast.guard import Way
from umbel.flower.fast.poke import poked
from umbel.flower.tasks import Refused, Task, TaskDesk, TaskSource, Unreachable
from umbel.model.event import (
    EnvironmentBuilding,
    EnvironmentFailed,
    EnvironmentReady,
    Event,
    TaskDied,
)
from umbel.model.unit import HUB

STOP_GRACE_S = 2.0
HEARTBEAT_S = 10.0
_UNPOKED_S = 1.0  # as often as stock SuperExec asks
_UNREACHABLE_WAIT_S = 0.25
_FULL_WAIT_S = 0.05
_RECHECK_S = 0.5  # one poke is one task; this catches what came without
_ATTEMPTS = 3


@dataclass(slots=True, eq=False)
class _Claim:
    """A task that is ours, from the claim to its end."""

    task: Task
    seat: Seat
    app: App
    given: bytes
    attempts: int = 0
    beat_s: float = field(default_factory=time.monotonic)
    connection: socket.socket | None = None
    inbox: Inbox = field(default_factory=Inbox)
    outgoing: memoryview = field(default_factory=lambda: memoryview(b""))
    pid: int = 0
    deadline_s: float = float("inf")  # begins anew with the process
    told: bool = False  # its failure is reported


class Dispatcher:
    """Single-threaded; everything it waits for is a file descriptor."""

    def __init__(self, settings: ExecSettings) -> None:
        self._settings = settings
        self._environments = Environments(default_root(os.environ))
        self._builds: Builds[_Claim] = Builds(self._environments)
        self._parents = Parents(settings.parents, settings.nursery, warm=settings.warm)
        self._apps = Apps(settings, self._environments)
        slots = settings.parents.parent / "slots"
        devices = limits.machine_devices() if settings.per_task.gpu else ()
        self._seats = Seats(slots, settings.per_task, settings.has, devices)
        self._running: dict[int, _Claim] = {}  # by the connection's descriptor
        self._desk = TaskDesk(settings.address, settings.ca.read_bytes())
        self._stopping = False
        self._leaving = False  # told to stop, but who offers tasks comes first
        way = Way.HOLD_LINK if settings.site == HUB else Way.HOLD_NODE
        told = guard.open_to(way)  # who stores a task pokes us; stock Flower does not
        self._poll_s = settings.poll_s if told else min(settings.poll_s, _UNPOKED_S)
        self._look_s = 0.0  # when to ask for a task though nobody poked
        self._asking: Asking | None = None
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until told to stop; then end every task."""
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        settings = self._settings
        left = notes.left_behind(settings.tasks)
        self._pokes = poked(settings.wake)
        source = TaskSource(settings.address, settings.ca, settings.secret, settings.environment)
        if settings.environment:
            self._asking = Asking(settings)
        for task in left:
            self._desk.fail(task, "the executor was killed")
        while not self._stopping:
            pokes = self._take_pokes()
            if pokes or time.monotonic() >= self._look_s:
                self._look_s = time.monotonic() + self._serve_once(source, pokes)
            self._wait(self._look_s - time.monotonic())
            self._look_after()
        self._end_all()

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        if self._settings.drains and not self._leaving:
            self._leaving = True
            self._poll_s, self._look_s = _UNREACHABLE_WAIT_S, 0.0
        else:
            self._stopping = True

    def _take_pokes(self) -> int:
        """Count how often we were poked: once for each task, unless there were too many."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while self._pokes.recv(16):
                count += 1
        return count

    def _serve_once(self, source: TaskSource, pokes: int) -> float:
        """Claim and start at most one task; gives how long to wait before the next look."""
        if self._leaving and self._settings.environment:  # others of its kind take what comes
            self._stopping = self._stopping or not self._busy()
            return _UNREACHABLE_WAIT_S
        seat = Seat([]) if self._seats.lacking else self._seats.take(self._busy())
        if seat is None:
            return _FULL_WAIT_S  # nobody tells when another executor's task ends
        task = None
        try:
            task = source.acquire()
        except Unreachable:
            self._reached(is_so=False)
            self._stopping = self._stopping or (self._leaving and not self._busy())
            return _UNREACHABLE_WAIT_S
        finally:
            if task is None:
                seat.close()
        self._reached(is_so=True)
        if task is None:
            return self._poll_s
        self._begin(task, seat)
        if self._asking is not None:
            return self._poll_s
        return _RECHECK_S if pokes == 1 else 0.0

    def _reached(self, *, is_so: bool) -> None:
        """Note whether a SuperNode elsewhere answers, and have it say when there is a task."""
        if self._asking is None:
            return
        if is_so:
            self._settings.reached.touch()
            self._asking.begin()
        else:
            self._settings.reached.unlink(missing_ok=True)

    def _busy(self) -> int:
        return len(self._running) + len(self._builds.waiting())

    def _begin(self, task: Task, seat: Seat) -> None:
        """Fetch the task's input, and start it where its environment is there."""
        claim = _Claim(task, seat, App("", "", None), b"")
        claim.deadline_s = time.monotonic() + self._settings.task_timeout_s
        try:
            given = self._desk.pull_input(task)
            claim.given = given.raw
            claim.app = self._apps.find(given.fab_hash, given.fab)
        except (Refused, FabUnreadable) as error:
            self._fail(claim, str(error))
            return
        if self._seats.lacking:
            self._fail(claim, self._seats.lacking)
        elif claim.app.recipe is None:
            self._start(claim)
        else:
            self._build(claim)

    def _build(self, claim: _Claim) -> None:
        assert claim.app.recipe is not None  # noqa: S101  # the caller looked
        folder = run_folder(self._settings, claim.task.run_id)
        ensure_private_folder(folder)
        recipe = claim.app.recipe
        self._record(claim, EnvironmentBuilding(*self._at(claim), list(recipe.dependencies)))
        notes.write_waiting(self._settings.tasks, claim.task)
        self._builds.want(recipe, folder / child.LOG, claim)

    def _start(self, claim: _Claim) -> None:
        """Give the task to the parent of its environment."""
        settings, app = self._settings, claim.app
        order = Order(
            settings=settings,
            task=claim.task,
            preload=app.imports,
            own=app.own,
            installed=app.installed,
            devices=claim.seat.devices,
            input=claim.given,
        )
        claim.attempts += 1
        try:
            claim.connection = self._parents.connect(app.key, app.python)
        except NoParent as error:
            self._fail(claim, f"has no parent: {error}")
            return
        claim.outgoing = memoryview(order.pack())
        self._running[claim.connection.fileno()] = claim
        self._send(claim)

    def _send(self, claim: _Claim) -> None:
        assert claim.connection is not None  # noqa: S101  # it was started
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while claim.outgoing:
                claim.outgoing = claim.outgoing[claim.connection.send(claim.outgoing) :]

    def _wait(self, seconds: float) -> None:
        now_s = time.monotonic()
        builds, leases = self._builds.fds(), self._parents.fds()
        reading = [self._wake, self._pokes.fileno(), *builds, *leases, *self._running]
        writing = [fd for fd, claim in self._running.items() if claim.outgoing]
        everybody = (*self._running.values(), *self._builds.waiting())
        ends = [c.deadline_s for c in everybody if not c.told]
        ends += [c.beat_s + HEARTBEAT_S for c in self._silent()]
        longest = max(0.0, min([seconds, *(end - now_s for end in ends)]))
        readable, writable, _ = select.select(reading, writing, [], longest)
        if self._wake in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 512)
        for fd in writable:
            self._send(self._running[fd])
        for fd in readable:
            if fd in self._running:
                self._hear(self._running[fd])
            elif fd in builds:
                self._built(builds[fd])
            elif fd in leases:
                self._parents.lost(leases[fd])

    def _silent(self) -> list[_Claim]:
        """List who cannot say itself that it lives."""
        starting = [claim for claim in self._running.values() if not claim.pid]
        return [*starting, *self._builds.waiting()]

    def _look_after(self) -> None:
        """End what took too long; say that those live who cannot yet say so."""
        now_s = time.monotonic()
        self._parents.retire({claim.app.key for claim in self._running.values()})
        for claim in (*self._running.values(), *self._builds.waiting()):
            if now_s > claim.deadline_s and not claim.told:
                self._report(claim, f"ran longer than {self._settings.task_timeout_s:g} s")
                self._kill(claim)
        for claim in self._silent():
            if now_s > claim.beat_s + HEARTBEAT_S:
                claim.beat_s = now_s
                if not self._desk.heartbeat(claim.task):
                    self._drop(claim)

    def _drop(self, claim: _Claim) -> None:
        """Forget a task that nobody wants any more."""
        self._builds.leave(claim)
        self._forget(claim)

    def _kill(self, claim: _Claim) -> None:
        """Have the parent kill the task; who has no process yet is only forgotten."""
        if claim.connection is None or not claim.pid:
            self._drop(claim)
            return
        with contextlib.suppress(OSError):
            claim.connection.shutdown(socket.SHUT_WR)

    def _hear(self, claim: _Claim) -> None:
        assert claim.connection is not None  # noqa: S101  # it was started
        try:
            piece = claim.connection.recv(4096)
        except BlockingIOError:
            return
        except ConnectionError:
            piece = b""
        for head in claim.inbox.take(piece):
            if "pid" in head:
                self._started(claim, int(head["pid"]))
            else:
                self._ended(claim, int(head["code"]), int(head["peak"]), full=bool(head["full"]))
        if not piece and claim.connection is not None:
            self._orphaned(claim)

    def _started(self, claim: _Claim, pid: int) -> None:
        claim.pid = pid
        claim.given = b""  # not needed again
        claim.deadline_s = time.monotonic() + self._settings.task_timeout_s
        notes.write_running(self._settings.tasks, claim.task, pid)
        print(f"{now_text()} started {claim.task!r} as process {pid}", flush=True)  # noqa: T201

    def _ended(self, claim: _Claim, code: int, peak: int, *, full: bool) -> None:
        print(f"{now_text()} ended {claim.task!r} with {code}", flush=True)  # noqa: T201
        memory = self._settings.per_task.memory
        if not claim.told and code < 0:
            cause = f"was killed by {signal.Signals(-code).name}"
            self._report(claim, limits.memory_cause(memory, cause, peak, killed=full))
        elif not claim.told and code > 1:  # Flower itself ends with 0 or 1, and has told why
            cause = f"ended with exit code {code}"
            self._report(claim, limits.memory_cause(memory, cause, peak, killed=full))
        self._forget(claim)

    def _orphaned(self, claim: _Claim) -> None:
        """The parent hung up. Before it named a process, nothing has begun: another one is asked."""
        if not claim.pid and not claim.told and claim.attempts < _ATTEMPTS:
            self._parents.lost(claim.app.key)
            self._hang_up(claim)
            self._start(claim)
            return
        words = "" if claim.pid else f": {self._parents.last_words(claim.app.key)}"
        if not claim.told:
            self._report(claim, f"lost its parent, which ended or was killed{words}")
        self._forget(claim)

    def _hang_up(self, claim: _Claim) -> None:
        if claim.connection is not None:
            self._running.pop(claim.connection.fileno(), None)
            claim.connection.close()
            claim.connection = None

    def _forget(self, claim: _Claim) -> None:
        claim.seat.close()
        if self._seats.limited:
            self._look_s = 0.0  # somebody may wait for the place
        notes.remove(self._settings.tasks, claim.task, claim.pid)
        self._hang_up(claim)

    def _built(self, key: str) -> None:
        built, waiting = self._builds.end(key)
        if built is None:
            return
        if not built.failed:
            self._apps.is_built(key)
        for claim in waiting:
            self._after_build(claim, built)

    def _after_build(self, claim: _Claim, built: Built) -> None:
        if built.failed:
            self._record(claim, EnvironmentFailed(*self._at(claim), built.failed))
            self._desk.fail(claim.task, f"the app's environment cannot be built: {built.failed}")
            self._forget(claim)
        else:
            self._record(claim, EnvironmentReady(*self._at(claim), built.seconds))
            self._start(claim)

    def _at(self, claim: _Claim) -> tuple[str, str, str]:
        return str(claim.task.run_id), now_text(), self._settings.site

    def _record(self, claim: _Claim, event: Event) -> None:
        folder: Path = run_folder(self._settings, claim.task.run_id)
        EventFile(folder / child.EVENTS).append(event)

    def _report(self, claim: _Claim, cause: str) -> None:
        claim.told = True
        self._record(claim, TaskDied(*self._at(claim), cause))
        self._desk.fail(claim.task, f"the task's process {cause}")

    def _fail(self, claim: _Claim, cause: str) -> None:
        """End a task that never had a process."""
        print(f"{now_text()} not started {claim.task!r}: {cause}", flush=True)  # noqa: T201
        ensure_private_folder(run_folder(self._settings, claim.task.run_id))
        self._report(claim, cause)
        self._forget(claim)

    def _end_all(self) -> None:
        """Ask every task to end, kill what does not, and let the parents go."""
        self._builds.stop()
        for claim in self._running.values():
            with contextlib.suppress(OSError):
                if claim.connection is not None and claim.pid:
                    claim.connection.send(ASK_TO_END)
        deadline_s = time.monotonic() + STOP_GRACE_S
        while self._running and time.monotonic() < deadline_s:
            self._wait(0.1)
        for claim in list(self._running.values()):
            self._kill(claim)
        deadline_s = time.monotonic() + STOP_GRACE_S
        while self._running and time.monotonic() < deadline_s:
            self._wait(0.1)
        self._parents.close()
