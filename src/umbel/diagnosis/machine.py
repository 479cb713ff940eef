"""Judges the machine: Python, limits, memory, clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from umbel.diagnosis.facts import Facts
from umbel.diagnosis.finding import Finding, Severity, ok

OLDEST_PYTHON = (3, 11)
FEW_FILES = 256
GOOD_FILES = 1024
MIB = 1 << 20
LITTLE_MEMORY = 256 * MIB
GOOD_MEMORY = 1024 * MIB
TOLERANCE = timedelta(seconds=60)  # clocks of file systems are a little off


def python(facts: Facts) -> Iterator[Finding]:
    """Umbel and Flower run on this Python and this system."""
    found = ".".join(map(str, facts.machine.python))
    if facts.machine.python < OLDEST_PYTHON:
        yield Finding(
            "PythonTooOld",
            Severity.PROBLEM,
            f"Python {found} is too old: 3.11 or newer is needed",
            "install a newer Python, and make the environment again with it",
        )
    elif facts.machine.platform != "linux":
        yield Finding(
            "PlatformUnsupported",
            Severity.PROBLEM,
            f"local sites need Linux, and this is {facts.machine.platform}",
            "use a Linux machine, a virtual machine or WSL 2",
        )
    else:
        yield ok("Python", f"Python {found}, {facts.machine.executable}")


def open_files(facts: Facts) -> Iterator[Finding]:
    """Enough files may be open: each client of the gate costs two."""
    limit = facts.machine.open_files
    if limit and limit < GOOD_FILES:
        severity = Severity.PROBLEM if limit < FEW_FILES else Severity.WARNING
        fact = f"only {limit} files may be open at once; {GOOD_FILES} are needed"
        hint = f"ulimit -n {GOOD_FILES} in the shell that runs umbel up"
        yield Finding("FewOpenFiles", severity, fact, hint)
    else:
        yield ok("OpenFiles", f"{limit or 'any number of'} files may be open")


def memory(facts: Facts) -> Iterator[Finding]:
    """There is room for a SuperLink and a few sites."""
    free = facts.machine.memory_free
    if free is None:
        yield Finding("MemoryUnseen", Severity.NOTE, "the kernel does not tell the free memory")
    elif free < GOOD_MEMORY:
        severity = Severity.PROBLEM if free < LITTLE_MEMORY else Severity.WARNING
        fact = f"{free // MIB} MiB of memory are free"
        hint = "a federation with three sites wants about 700 MiB and what the app needs"
        yield Finding("LittleMemory", severity, fact, hint)
    else:
        yield ok("Memory", f"{free / 2**30:.1f} GiB of memory are free")


def clock(facts: Facts) -> Iterator[Finding]:
    """Nothing that we wrote was written in the future."""
    now = facts.machine.now
    latest = max(facts.moments, key=lambda moment: moment.at, default=None)
    if latest is not None and latest.at > now + TOLERANCE:
        behind = timedelta(seconds=round((latest.at - now).total_seconds()))
        yield Finding(
            "ClockBehind",
            Severity.PROBLEM,
            f"the clock says {now:%Y-%m-%d %H:%M:%S} UTC, but {latest.what} is from "
            f"{latest.at:%Y-%m-%d %H:%M:%S} UTC: it is behind by {behind} or more, or was ahead then",
            "compare `date -u` with another machine; switch time synchronisation (NTP) on",
        )
    elif facts.machine.keeps_time is False:
        yield Finding(
            "ClockUnsynchronized",
            Severity.NOTE,
            f"the clock says {now:%Y-%m-%d %H:%M:%S} UTC; the kernel knows of no time server",
            "certificates and signatures need a clock that is right: timedatectl set-ntp true",
        )
    else:
        yield ok("Clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")
