"""Starts the nursery. Light: the daemon does this before anything else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from umbel.files import CannotWrite
from umbel.flower.commands import quiet
from umbel.sockets import is_answered


def socket_path(home: Path) -> Path:
    """Say where the nursery of this home listens."""
    return home / "run" / "nursery.sock"


def log_path(home: Path) -> Path:
    """Say where the nursery of this home logs."""
    return home / "nursery.log"


def start(home: Path) -> subprocess.Popen[bytes] | None:
    """Start a nursery unless one answers already; returns at once, it takes a second to load."""
    if is_answered(socket_path(home)):
        return None
    socket_path(home).unlink(missing_ok=True)
    try:
        fd = os.open(log_path(home), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotWrite(log_path(home), error) from error
    with os.fdopen(fd, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "umbel.agent.nursery", str(socket_path(home))],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **quiet(home / "flower")},
            start_new_session=True,
            cwd="/",
        )
