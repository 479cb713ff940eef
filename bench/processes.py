"""What the processes of a federation cost: CPU seconds, and memory without counting shared pages twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.1


def of(folder: Path) -> list[Path]:
    """Find the processes that were started with this folder in their environment or command."""
    mark = str(folder).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                    found.append(entry)
            except OSError:
                continue
    return found


def cpu_s(folder: Path) -> float:
    """Sum the CPU seconds of these processes and of their children that ended."""
    ticks = 0
    for entry in of(folder):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(fields[i]) for i in (11, 12, 13, 14))
    return ticks / _TICKS


def memory_mib(folder: Path) -> float:
    """Sum their proportional set sizes."""
    total_kib = 0
    for entry in of(folder):
        try:
            rollup = (entry / "smaps_rollup").read_text()
            total_kib += int(rollup.split("\nPss:")[1].split()[0])
        except (OSError, IndexError):
            continue
    return total_kib / 1024


@contextmanager
def peak_mib(folder: Path) -> Iterator[list[float]]:
    """Sample their memory while the block lasts; the list's last entry is the highest sum."""
    peak, over = [0.0], threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_S):
            peak.append(max(peak[-1], memory_mib(folder)))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()
