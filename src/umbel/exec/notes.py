"""Notes of the tasks of an executor: what runs now, and what the next one must answer for.

A note holds the task's token, so that a task that dies with its executor can still be told to have
failed. A note is named by its process; while a task waits for its environment, by its own number.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

from umbel.files import ensure_private_folder
from umbel.flower.tasks import Task

_WAITING = "waiting"


def left_behind(folder: Path) -> list[Task]:
    """Give the tasks of a former executor, which died with it, and begin anew."""
    found = {}
    for note in (*sorted(folder.glob("[0-9]*")), *sorted(folder.glob(f"{_WAITING}/[0-9]*"))):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            task = Task(**json.loads(note.read_text())["task"])
            found[task.task_id] = task
    shutil.rmtree(folder, ignore_errors=True)
    ensure_private_folder(folder)
    return list(found.values())


def write_waiting(folder: Path, task: Task) -> None:
    """Note a task that has no process yet."""
    ensure_private_folder(folder / _WAITING)
    _write(folder / _WAITING / str(task.task_id), task, 0)


def write_running(folder: Path, task: Task, pid: int) -> None:
    """Note a task's process."""
    _write(folder / str(pid), task, pid)


def remove(folder: Path, task: Task, pid: int) -> None:
    """Forget a task."""
    with contextlib.suppress(OSError):
        (folder / _WAITING / str(task.task_id)).unlink(missing_ok=True)
        if pid:
            (folder / str(pid)).unlink(missing_ok=True)


def _write(path: Path, task: Task, pid: int) -> None:
    """Write without waiting for the disk: a note is for those who see this machine go on."""
    note = {"pid": pid, "run_id": str(task.run_id), "task": asdict(task)}
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, json.dumps(note).encode())
        finally:
            os.close(fd)
