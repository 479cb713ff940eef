"""Looks for parents of tasks that cannot fork."""

from __future__ import annotations

import contextlib
from pathlib import Path

from umbel.diagnosis.facts import UnsafeParent


def unsafe(home: Path) -> tuple[UnsafeParent, ...]:
    """Read the notes that such parents leave as long as they live."""
    found = []
    for note in sorted((home / "run" / "parents").glob("*.unsafe")):
        with contextlib.suppress(OSError):
            found.append(UnsafeParent(note.stem.partition("-")[0], note.read_text().strip()))
    return tuple(found)
