"""Processes by identity: a process id alone may name another process tomorrow."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_STARTED = 19  # field of /proc/PID/stat after the name: clock ticks since boot
_PARENT = 1


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was started at a certain moment."""

    pid: int
    started: int

    def alive(self) -> bool:
        """Whether this very process runs (a zombie does not)."""
        fields = _stat(self.pid)
        return fields is not None and fields[0] != "Z" and int(fields[_STARTED]) == self.started

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this very process; silent when it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            fd = os.pidfd_open(self.pid)
            try:
                if self.alive():
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)


def identify(pid: int) -> Process | None:
    """Give the identity of the process that has this id now."""
    fields = _stat(pid)
    return None if fields is None else Process(pid, int(fields[_STARTED]))


def tree(roots: set[int]) -> list[Process]:
    """Find all descendants of `roots` and `roots` themselves."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            children.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
    found, queue = set(roots), list(roots)
    while queue:
        fresh = [c for c in children.get(queue.pop(), []) if c not in found]
        found.update(fresh)
        queue.extend(fresh)
    return [p for pid in found if (p := identify(pid)) is not None]


def children_of(pid: int) -> set[int]:
    """Find the direct children."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return {int(c) for t in tasks for c in (t / "children").read_text().split()}
    except OSError:
        return {p.pid for p in tree({pid})} - {pid}


def name_self(name: str) -> None:
    """Show `name` in ps and top."""
    _LIBC.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def become_subreaper() -> None:
    """Take over descendants that lose their parent, so that none gets away."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
