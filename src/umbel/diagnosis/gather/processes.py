"""Looks at processes: which are ours, and who listens on a port."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from umbel.agent.processes import identify, tree
from umbel.diagnosis.facts import Holder, LeftProcess
from umbel.diagnosis.gather.machine import user_name

_LISTENING = "0A"
_SHOWN = 120
YOUNG_S = 15.0  # may be a unit that was not written down yet


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that accepts connections."""

    port: int
    inode: str
    user: int


def read_listeners(*tables: str) -> list[Listener]:
    """Read the kernel's tables /proc/net/tcp and tcp6."""
    found = []
    for line in (line for table in tables for line in table.splitlines()[1:]):
        fields = line.split()
        if fields[3] == _LISTENING:
            port = int(fields[1].rpartition(":")[2], 16)
            found.append(Listener(port, fields[9], int(fields[7])))
    return found


class Processes:
    """The processes of this machine, as they were when this was made."""

    def __init__(self, home: Path, known: Iterable[int], young_s: float = YOUNG_S) -> None:
        self._home = str(home)
        self._young_s = young_s
        self._owned = {process.pid for process in tree({pid for pid in known if pid})}
        self._listeners = _listeners()
        self._holders: Mapping[str, int] | None = None

    def left(self) -> tuple[LeftProcess, ...]:
        """Find processes of this home that nobody owns."""
        return tuple(
            LeftProcess(pid, _name(pid)) for pid in self._unowned() if _age_s(pid) > self._young_s
        )

    def starting(self) -> bool:
        """Whether a process of this home has just begun, and does not answer yet."""
        return any(_age_s(pid) <= self._young_s for pid in self._unowned())

    def _unowned(self) -> list[int]:
        return [pid for pid in _pids() if pid not in self._owned and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        """Whether it is Umbel's, of this home: another home's are none of our business."""
        words = _command(pid)
        inside = any(w == self._home or w.startswith(f"{self._home}/") for w in words)
        return inside and any(w.startswith("umbel.") for w in words)

    def holder(self, port: int) -> Holder | None:
        """Say who listens on this port."""
        found = [listener for listener in self._listeners if listener.port == port]
        if not found:
            return None
        if self._holders is None:
            self._holders = _holders({listener.inode for listener in self._listeners})
        pid = next((p for item in found if (p := self._holders.get(item.inode))), 0)
        command = " ".join(_command(pid))[:_SHOWN] if pid else ""
        return Holder(pid, command, user_name(found[0].user), pid in self._owned)


def _listeners() -> list[Listener]:
    tables = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            tables.append(Path(f"/proc/net/{name}").read_text())
    return read_listeners(*tables)


def _holders(inodes: Collection[str]) -> dict[str, int]:
    """Find the process behind each socket; those of other users stay unknown."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, int] = {}
    for pid in _pids():
        with contextlib.suppress(OSError):
            for fd in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    inode = wanted.get(str(Path(fd.path).readlink()))
                    if inode is not None:
                        found.setdefault(inode, pid)
    return found


def _pids() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _command(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text.rstrip("\0").split("\0")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def _age_s(pid: int) -> float:
    process = identify(pid)
    if process is None:
        return 0.0
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    return uptime_s - process.started / os.sysconf("SC_CLK_TCK")


def executable_of(pid: int) -> str:
    """Say by which Python a process was started."""
    words = _command(pid)
    return words[0] if words else ""


def environment_of(pid: int) -> dict[str, str] | None:
    """Give the environment that a process was started with; None when we may not look."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return dict(item.partition("=")[::2] for item in text.split("\0") if item)
