"""Keeps logs small while their writers go on."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

LIMIT_BYTES = 16 << 20


def trim(folder: Path, limit_bytes: int = LIMIT_BYTES) -> list[Path]:
    """Move what is in each large log aside, once; writers append, so they need not know."""
    trimmed = []
    for path in sorted(folder.rglob("logs/*.log")):
        with contextlib.suppress(OSError):
            if path.stat().st_size > limit_bytes:
                shutil.copyfile(path, path.with_suffix(".log.1"))
                os.truncate(path, 0)
                trimmed.append(path)
    return trimmed
