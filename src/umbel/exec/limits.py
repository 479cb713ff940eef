"""How many tasks may run at once, and how much memory one may take."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umbel.files import ensure_private_folder

_PARTS = 100  # a core is shared out in hundredths
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Share:
    """Cores, bytes and devices; 0 is no limit."""

    cpu: float = 0.0
    memory: int = 0
    gpu: int = 0

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Share:
        """Read a share that crossed a process border."""
        return cls(float(data.get("cpu", 0)), int(data.get("memory", 0)), int(data.get("gpu", 0)))


NO_LIMIT = Share()


def at_once(per_task: Share, site: Share) -> int | None:
    """Say how many tasks a site runs at once by what it declares; None: it declares nothing."""
    counts = [
        max(1, int(has / each + 1e-9))
        for has, each in ((site.cpu, per_task.cpu), (site.gpu, per_task.gpu))
        if has and each
    ]
    return min(counts) if counts else None


def core_ranges(cpu: float, cores: int) -> list[tuple[int, int]]:
    """List the places where a task of this size may sit, as (start, length) in parts of a core."""
    length = min(max(1, round(cpu * _PARTS)), cores * _PARTS)
    return [(start, length) for start in range(0, cores * _PARTS - length + 1, length)]


def visible_devices(env: Mapping[str, str], seen: Iterable[str]) -> tuple[str, ...]:
    """Name the devices that tasks may have: those the user shows, else all."""
    shown = env.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return tuple(name.strip() for name in shown.split(",") if name.strip())
    return tuple(sorted((name for name in seen if name.isdigit()), key=int))


def machine_devices() -> tuple[str, ...]:
    """Find the devices of this machine."""
    names = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))
    return visible_devices(os.environ, names)


@dataclass(slots=True)
class Seat:
    """A task's place on this machine, given up when it is closed or its holder dies."""

    fds: list[int]
    devices: tuple[str, ...] | None = None  # None: as the user shows them

    def close(self) -> None:
        """Give the place up."""
        while self.fds:
            os.close(self.fds.pop())


class Seats:
    """The cores and devices of this machine, shared by all sites of a home.

    What is taken is a locked range of bytes in a file: the kernel gives it back, whatever happens.
    """

    def __init__(self, folder: Path, per_task: Share, site: Share, devices: Sequence[str]) -> None:
        self._folder = folder
        self._per_task = per_task
        self._most = at_once(per_task, site)
        self._by_cores = bool(per_task.cpu) and not site.cpu
        self._cores = os.cpu_count() or 1
        self._devices = devices

    @property
    def limited(self) -> bool:
        """Whether a task may have to wait at all."""
        return bool(self._per_task.cpu or self._per_task.gpu)

    @property
    def lacking(self) -> str:
        """Say why no task could ever start here."""
        wanted, there = self._per_task.gpu, len(self._devices)
        return f"asks for {wanted} GPUs, and this machine has {there}" if wanted > there else ""

    def take(self, running: int) -> Seat | None:
        """Find a place for one more task; None while there is none."""
        if self._most is not None and running >= self._most:
            return None
        seat = Seat([])
        if self._by_cores and not self._sit(seat):
            return None
        if self._per_task.gpu and not self._take_devices(seat):
            seat.close()
            return None
        return seat

    def _open(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        return os.open(ensure_private_folder(self._folder) / name, flags, 0o600)

    def _sit(self, seat: Seat) -> bool:
        fd = self._open("cores")
        for start, length in core_ranges(self._per_task.cpu, self._cores):
            if _lock(fd, start, length):
                seat.fds.append(fd)
                return True
        os.close(fd)
        return False

    def _take_devices(self, seat: Seat) -> bool:
        fd = self._open("devices")
        mine: list[str] = []
        for place, device in enumerate(self._devices):
            if len(mine) < self._per_task.gpu and _lock(fd, place, 1):
                mine.append(device)
        seat.fds.append(fd)
        seat.devices = tuple(mine)
        return len(mine) == self._per_task.gpu


def _lock(fd: int, start: int, length: int) -> bool:
    wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, wanted)
    except (BlockingIOError, PermissionError):
        return False
    return True


def in_words(memory: int) -> str:
    """Write an amount of memory."""
    return f"{memory / _MIB:g} MiB"


def limit_memory(memory: int) -> None:
    """Let this process take so much more than it has: what it shares with others is free."""
    limit = data_bytes(Path("/proc/self/status").read_text()) + memory
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit if most < 0 else min(limit, most), most))


def data_bytes(status: str) -> int:
    """Read from /proc/PID/status how much a process may write to."""
    for line in status.splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    return 0


def memory_cause(memory: int, cause: str, peak: int, *, killed: bool) -> str:
    """Say that the limit was reached, where that is why the process died."""
    if memory and (killed or peak > memory * 0.8):
        return f"reached its memory limit of {in_words(memory)} and {cause}"
    return cause
