"""A control group for one task, where this user may make one: it counts what is really used."""

from __future__ import annotations

import contextlib
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


def own_group(text: str, mount: Path = MOUNT) -> Path | None:
    """Find the group of version 2 that /proc/self/cgroup names."""
    for line in text.splitlines():
        if line.startswith("0::"):
            return mount / line[3:].lstrip("/")
    return None


class TaskGroup:
    """A group of its own for one process and all that it starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def enter(self, pid: int) -> None:
        """Put the process in, before it has done anything."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def was_full(self) -> bool:
        """Whether the kernel killed something in it for want of memory."""
        with contextlib.suppress(OSError):
            rows = (self._folder / "memory.events").read_text().split("\n")
            counts = dict(row.split() for row in rows if row)
            return int(counts.get("oom_kill", 0)) > 0
        return False

    def remove(self) -> None:
        """Take the group away, with what is still in it."""
        with contextlib.suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def make(name: str, memory: int, own: Path | None) -> TaskGroup | None:
    """Make a group with this limit, below or beside our own; None where that is not allowed."""
    for above in () if own is None else (own, own.parent):
        folder = above / f"umbel-{name}"
        with contextlib.suppress(OSError):
            if "memory" not in (above / "cgroup.subtree_control").read_text().split():
                continue
            folder.mkdir()
            (folder / "memory.max").write_text(str(memory))
            with contextlib.suppress(OSError):
                (folder / "memory.swap.max").write_text("0")
            return TaskGroup(folder)
        with contextlib.suppress(OSError):
            folder.rmdir()
    return None
