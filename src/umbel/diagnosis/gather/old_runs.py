"""Looks for results of runs that nobody has touched for long."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from umbel.diagnosis.facts import OldRuns

OLD_DAYS = 30
_LOOK_S = 0.5  # folders may be large, and a note is not worth a wait


def look(home: Path, now: datetime) -> tuple[OldRuns, ...]:
    """Count the old runs of each place, and what they take."""
    deadline_s = time.monotonic() + _LOOK_S
    places = sorted((home / "federations").glob("*/hub/runs"))
    places += sorted((home / "federations").glob("*/sites/*/runs"))
    found = []
    for place in places:
        ages = {run: _age_days(run, now) for run in _entries(place)}
        old = {run: days for run, days in ages.items() if days > OLD_DAYS}
        if old:
            size = sum(_size(run, deadline_s) for run in old)
            found.append(OldRuns(place, len(old), size, max(old.values())))
    return tuple(found)


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from folder.iterdir()


def _age_days(path: Path, now: datetime) -> int:
    try:
        return int((now.timestamp() - path.stat().st_mtime) // 86_400)
    except OSError:
        return 0


def _size(folder: Path, deadline_s: float) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        if time.monotonic() > deadline_s:
            break
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(root) / name).lstat().st_size
    return total
