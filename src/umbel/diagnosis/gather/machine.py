"""Looks at the machine and at this process."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from umbel import __version__
from umbel.diagnosis.facts import Machine, Moment

_NOT_SYNCHRONIZED = 5  # what adjtimex answers then
_TIMEX_BYTES = 512  # more than the kernel writes
_CGROUP = Path("/sys/fs/cgroup")


def look() -> Machine:
    """Describe the machine."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Machine(
        platform=sys.platform,
        python=sys.version_info[:3],
        executable=sys.executable,
        umbel=__version__,
        now=datetime.now(UTC),
        keeps_time=_keeps_time(),
        open_files=0 if limit == resource.RLIM_INFINITY else limit,
        memory_free=memory_free(),
        user=os.geteuid(),
        user_name=user_name(os.geteuid()),
    )


def user_name(number: int) -> str:
    """Name the user, or give the number of one without a name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def memory_free() -> int | None:
    """Tell how many bytes of memory are free, within the limit of our control group."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    free = read_available(text)
    left = _left_in_group()
    return free if left is None or free is None else min(free, left)


def read_available(meminfo: str) -> int | None:
    """Find what /proc/meminfo says is available, in bytes."""
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def _left_in_group() -> int | None:
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = (_CGROUP / "memory.current").read_text().strip()
    except OSError:
        return None
    return max(0, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else None


def _keeps_time() -> bool | None:
    """Ask the kernel whether a time server sets the clock; asking needs no right."""
    try:
        answer = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else answer != _NOT_SYNCHRONIZED


def written(paths: Sequence[Path]) -> list[Moment]:
    """Tell when these files were last written; those that are not there are left out."""
    moments = []
    for path in paths:
        try:
            at_s = path.stat().st_mtime
        except OSError:
            continue
        moments.append(Moment(str(path), datetime.fromtimestamp(at_s, UTC)))
    return moments
