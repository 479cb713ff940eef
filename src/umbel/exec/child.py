"""One task, in this process, to its end."""

from __future__ import annotations

import ctypes
import io
import os
import random
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from umbel.exec import limits, link
from umbel.exec.cgroups import TaskGroup
from umbel.exec.link import Order
from umbel.exec.recorder import EventFile, Recorder, raised
from umbel.exec.settings import run_folder
from umbel.flower import instruments, tasks

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
LOG = "log.txt"
EVENTS = "events.jsonl"
WORK = "work"


def run(
    order: Order,
    parent: int,
    group: TaskGroup | None = None,
    foreign: frozenset[str] = frozenset(),
) -> NoReturn:
    """Become the task's process: own session, own files, nothing inherited that is open.

    `foreign` modules were loaded for apps; where this app has modules of that name, they go.
    """
    settings, task = order.settings, order.task
    code: Any = 1
    try:
        ca = settings.ca.read_bytes()
        folder = run_folder(settings, task.run_id)
        _step_aside(folder, parent)
        memory = _limit(settings.per_task.memory, group)
        os.environ["FLWR_HOME"] = str(settings.flower_home)
        if order.devices is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(order.devices)
        os.chdir(folder / WORK)
        _unload(foreign.intersection(order.own))
        _fresh_randomness()
        events = EventFile(folder / EVENTS)
        tasks.on_exception(
            lambda message, error: events.append(raised(task.run_id, settings.site, message, error))
        )
        tasks.plain_logs()
        given = tasks.Given(order.input, order.installed, memory)
        if task.type == tasks.SERVER_APP:
            instruments.install(Recorder(task.run_id, folder, events))
            tasks.run_server_task(settings.address, ca, task, given)
        else:
            tasks.run_client_task(settings.address, ca, task, given)
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001  # the end of a forked process: the log is the only place
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # No clean-up of what the parent owns: this process only shares its memory.
        os._exit(code if isinstance(code, int) else int(bool(code)))


def _step_aside(folder: Path, parent: int) -> None:
    """Leave the parent's session and open files, die when it dies, log to the run's folder."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    become_subreaper()  # so that it is known whose the strays are
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(fd, place)
    os.closerange(3, 4096)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # a crash must not swallow what was said


def become_subreaper() -> None:
    """Take over descendants that lose their parent."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _limit(memory: int, group: TaskGroup | None) -> str:
    """Put the memory limit in force; gives it in words."""
    if not memory:
        return ""
    try:
        if group is None:
            limits.limit_memory(memory)
        else:
            group.enter(os.getpid())
    except OSError:
        limits.limit_memory(memory)
    return limits.in_words(memory)


def _unload(names: frozenset[str]) -> None:
    if names:
        for name in [n for n in sys.modules if n.partition(".")[0] in names]:
            del sys.modules[name]


def _fresh_randomness() -> None:
    random.seed()
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed()
    if torch is not None:
        torch.default_generator.seed()  # never touches a device


def main() -> NoReturn:
    """Run the task that standard input describes."""
    head, given = link.read(sys.stdin.buffer.read())
    run(link.unpack_order(head, given), os.getppid())
