"""Who did what, when, with what result: JSON lines in a file that only its owner reads.

Nothing that a client sent is written, only names from our own tables. A burst of refusals becomes
one line with a count, so that a flood fills no disk and hides no other line.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from umbel.errors import WorldError

BURST_S = 60.0  # refusals of one kind within this time are one line and a count
KINDS = 64  # more kinds of refusals within that time are counted together
RESERVE = 1 << 20  # bytes that must be free before a Control call is let through
_FULL = (errno.ENOSPC, errno.EDQUOT)
_encode = json.JSONEncoder(separators=(",", ":")).encode


class AuditUnwritable(WorldError):
    """The audit file cannot be opened."""

    code = "U244"
    exit_status = 2

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"the gate cannot write its audit log {path}: {error.strerror or error}",
            hint="check who owns the folder, and whether the file system is read-only",
        )


class Entry(NamedTuple):
    """One line of the audit log. Times in milliseconds, sizes in bytes."""

    door: str
    who: str
    peer: str
    what: str
    status: int
    ms: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    why: str = ""

    def as_line(self, at: float, times: int = 1) -> dict[str, object]:
        """Give the members of the JSON object; empty ones are left out."""
        line: dict[str, object] = {
            "at": iso(at),
            "door": self.door,
            "who": self.who,
            "peer": self.peer,
            "what": self.what,
            "status": self.status,
            "ms": round(self.ms, 1),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }
        if self.why:
            line["why"] = self.why
        if times != 1:
            line["times"] = times
        return line


@dataclass(slots=True)
class _Burst:
    """Refusals of one kind since the first one, which was written."""

    last: Entry
    ends: float
    unwritten: int = 0


class Audit:
    """Appends to the audit log; a full disk is noticed, survived, and told when it is over."""

    def __init__(self, path: Path, *, size: int, files: int, clock: Callable[[], float]) -> None:
        self._path = path
        self._size = size
        self._files = files
        self._clock = clock
        self._fd = -1
        self._room = 0  # so much may be written before the file's size is looked at
        self._torn = False  # the last line is incomplete
        self._lost = 0
        self._bursts: dict[tuple[str, ...], _Burst] = {}
        try:
            self._fd = _open(path)
        except OSError as error:
            if error.errno not in _FULL:
                raise AuditUnwritable(path, error) from error
            self._lost = 1

    @property
    def ready(self) -> bool:
        """Whether a call made now could be written down when it is over."""
        if self._lost and not self._resume():
            return False
        try:
            disk = os.fstatvfs(self._fd)
            if disk.f_bavail * disk.f_frsize >= RESERVE:
                return True
            return not stat.S_ISREG(os.fstat(self._fd).st_mode)
        except OSError:
            return False

    def write(self, entry: Entry) -> None:
        """Append one line."""
        self._append(entry.as_line(self._clock()))

    def event(self, what: str, **members: object) -> None:
        """Append a line about the gate itself."""
        self._append({"at": iso(self._clock()), "who": "gate", "what": what, **members})

    def refusal(self, entry: Entry) -> None:
        """Append the first of its kind at once; the rest of a burst becomes one line."""
        now = self._clock()
        kind: tuple[str, ...] = (entry.door, entry.who, entry.peer, str(entry.status), entry.why)
        if kind not in self._bursts and len(self._bursts) >= KINDS:
            kind = ("many",)
        burst = self._bursts.get(kind)
        if burst is None:
            self._bursts[kind] = _Burst(entry, now + BURST_S)
            self._append(entry.as_line(now))
        else:
            burst.last = entry
            burst.unwritten += 1

    def settle(self, *, everything: bool = False) -> None:
        """Write the counts of the bursts that are over."""
        now = self._clock()
        for kind, burst in list(self._bursts.items()):
            if everything or burst.ends <= now:
                del self._bursts[kind]
                if burst.unwritten:
                    self._append(burst.last.as_line(now, burst.unwritten))

    def close(self) -> None:
        """Write what is still counted, and close the file."""
        self.settle(everything=True)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, line: dict[str, object]) -> None:
        if (self._lost and not self._resume()) or not self._put(_written(line)):
            self._lost += 1

    def _resume(self) -> bool:
        """Try whether writing works again, by telling how much was lost."""
        line = {
            "at": iso(self._clock()),
            "who": "gate",
            "what": "audit resumed",
            "lost": self._lost,
        }
        if not self._put(_written(line)):
            return False
        self._lost = 0
        return True

    def _put(self, data: bytes) -> bool:
        try:
            if self._fd < 0:
                self._fd = _open(self._path)
            if self._torn:
                data = b"\n" + data
            written = os.write(self._fd, data)
            self._torn = written != len(data)
            self._room -= written
            if self._room <= 0:
                self._rotate()
        except OSError:
            return False
        return not self._torn

    def _rotate(self) -> None:
        """Start a new file when this one is long enough, and keep the last few."""
        seen = os.fstat(self._fd)
        self._room = self._size - seen.st_size
        if self._room > 0 or not stat.S_ISREG(seen.st_mode):
            return
        for number in range(self._files - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}")
            source = newer if number > 1 else self._path
            if source.exists():
                source.replace(older)
        if self._files == 1:
            self._path.unlink()
        os.close(self._fd)
        self._fd = -1
        self._fd = _open(self._path)


def iso(at: float) -> str:
    """Write a time as ISO 8601, UTC, to the millisecond."""
    second, milliseconds = divmod(int(at * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _written(line: dict[str, object]) -> bytes:
    return _encode(line).encode("ascii") + b"\n"


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        os.fchmod(fd, 0o600)
    return fd
