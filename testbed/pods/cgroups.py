"""Control groups of the nodes: what they hold is exactly what we started, containers included."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.errors import BedError, CannotRun
from testbed.pods.plan import PREFIX

ROOT = Path("/sys/fs/cgroup")
HIERARCHIES = (
    *("cpu", "cpuacct", "cpuset", "memory", "devices"),
    *("freezer", "blkio", "pids", "systemd"),
)
TRACKER = "pids"  # the hierarchy in which processes are looked up
DAEMONS = "daemons"
PATIENCE_S = 20


class NoControlGroups(CannotRun):
    """The machine has no control groups of version 1 that we may use."""

    def __init__(self, missing: Path) -> None:
        super().__init__(
            f"no control group hierarchy at {missing}",
            hint="nodes with real containers need version 1 control groups and root",
        )


class StillThere(BedError):
    """Processes or groups did not go away."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} did not go away in {PATIENCE_S} s")


def make(name: str, root: Path = ROOT) -> Path:
    """Make a node's group in every hierarchy; give the file a daemon joins it by."""
    for hierarchy in HIERARCHIES:
        if not (root / hierarchy).is_dir():
            raise NoControlGroups(root / hierarchy)
        (root / hierarchy / name).mkdir(exist_ok=True)
    for setting in ("cpuset.cpus", "cpuset.mems"):
        # A new cpuset is empty and takes no process until both are filled.
        filled = (root / "cpuset" / setting).read_text()
        (root / "cpuset" / name / setting).write_text(filled)
    return tracker(name, root)


def tracker(name: str, root: Path = ROOT) -> Path:
    """Make the group for daemons below the name; children of its members are members."""
    group = root / TRACKER / name / DAEMONS
    group.mkdir(parents=True, exist_ok=True)
    return group / "cgroup.procs"


def joining(procs: Path) -> list[str]:
    """Start of a command that is a member of the group from its first instruction on."""
    return ["sh", "-c", 'echo 0 > "$0" && exec "$@"', str(procs)]


def ours(root: Path = ROOT, prefix: str = PREFIX) -> list[Path]:
    """Give our groups of every hierarchy, whoever made them and when."""
    return sorted(root.glob(f"*/{prefix}-*"))


def members(group: Path) -> set[int]:
    """Give the processes in the group and below."""
    found: set[int] = set()
    for procs in group.rglob("cgroup.procs"):
        with contextlib.suppress(FileNotFoundError, OSError):
            found |= {int(line) for line in procs.read_text().split()}
    return found


def end(name: str, root: Path = ROOT) -> None:
    """End every process of the group and below: first asked, then made to."""
    group = root / TRACKER / name
    for force in (signal.SIGTERM, signal.SIGKILL):
        grace = time.monotonic() + (2 if force is signal.SIGTERM else PATIENCE_S)
        first = True
        while found := members(group):
            if first or force is signal.SIGKILL:
                tell(found, force)
            first = False
            if time.monotonic() > grace:
                break
            time.sleep(0.05)
    if left := members(group):
        raise StillThere(f"processes {sorted(left)} of {name}")


def tell(pids: set[int], force: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, force)


def remove(name: str, root: Path = ROOT) -> None:
    """Remove the group from every hierarchy, deepest first; the kernel may need a moment."""
    for group in sorted(root.glob(f"*/{name}")):
        for folder in deepest_first(group):
            deadline = time.monotonic() + PATIENCE_S
            while folder.is_dir():
                try:
                    folder.rmdir()
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise StillThere(f"control group {folder}") from error
                    time.sleep(0.05)


def deepest_first(group: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(group, topdown=False):
        yield Path(folder)


def remove_all(root: Path = ROOT, prefix: str = PREFIX) -> None:
    """End and remove everything that bears our prefix."""

    def over(name: str) -> None:
        end(name, root)
        remove(name, root)

    with ThreadPoolExecutor() as pool:  # each is patient with its own
        list(pool.map(over, {group.name for group in ours(root, prefix)}))
