"""Compiled code for a new environment: what this process has loaded need not be compiled again."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import sysconfig
from pathlib import Path


def lend(environment: Path) -> int:
    """Copy the compiled form of every loaded module whose source is the very same file there.

    Python itself checks the source's time and size when it loads the copy, so a wrong one does no
    harm. Gives how many were copied.
    """
    ours = Path(sysconfig.get_path("purelib"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    theirs = environment / "lib" / version / "site-packages"
    count = 0
    for module in list(sys.modules.values()):
        source, compiled = getattr(module, "__file__", None), getattr(module, "__cached__", None)
        if source and compiled and source.startswith(f"{ours}{os.sep}"):
            with contextlib.suppress(OSError, ValueError):
                count += _copy(ours, theirs, Path(source), Path(compiled))
    return count


def _copy(ours: Path, theirs: Path, source: Path, compiled: Path) -> bool:
    here, there = source.stat(), (theirs / source.relative_to(ours)).stat()
    if (int(here.st_mtime), here.st_size) != (int(there.st_mtime), there.st_size):
        return False
    target = theirs / compiled.relative_to(ours)
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(compiled, target)
    return True
