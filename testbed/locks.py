"""Locks that end with the process that holds them, and who has the nodes of this machine."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed.errors import BedError
from testbed.processes import Processes, born, runs
from testbed.programs import cache

REGISTER = Path("/run/umbel-tb.json")  # one for the machine, whoever asks


class Busy(BedError):
    def __init__(self, what: str) -> None:
        super().__init__(f"another command is at work on {what}", hint="wait until it has ended")


class NodesElsewhere(BedError):
    def __init__(self, state: str) -> None:
        super().__init__(
            f"nodes with real containers run already on this machine, for the test bed in {state}",
            hint=f"python -m testbed down --state {state}",
        )


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of this name; somebody else's is an error at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(what) from None
        yield


def of_state(state: Path) -> Path:
    """Name the lock of a test bed; beside its folder, which comes and goes."""
    key = hashlib.sha256(os.fsencode(state.resolve())).hexdigest()[:16]
    return cache() / "locks" / key


@dataclass(frozen=True)
class Holder:
    """Whose nodes run on this machine: a test bed, and the process that brought it up."""

    state: str
    pid: int
    born: int
    lasting: bool  # meant to stay when that process has ended

    def is_alive(self) -> bool:
        if born(self.pid) == self.born:
            return True
        return self.lasting and any(map(runs, Processes(Path(self.state)).all()))


def holder(register: Path = REGISTER) -> Holder | None:
    """Read who has the nodes."""
    try:
        return Holder(**json.loads(register.read_text()))
    except FileNotFoundError:
        return None


def take_nodes(state: Path, *, lasting: bool, register: Path = REGISTER) -> Path | None:
    """Write down that the nodes are this test bed's; an error if they are another's that lives.

    If they were those of one that has crashed, its folder is given: it wants to be cleared.
    """
    with held(register.with_suffix(".lock"), "the nodes of this machine"):
        seen, mine = holder(register), str(state.resolve())
        if seen and seen.state != mine and seen.is_alive():
            raise NodesElsewhere(seen.state)
        pid = os.getpid()
        fresh = Holder(mine, pid, born(pid) or 0, lasting)
        beside = register.with_suffix(".new")
        beside.write_text(json.dumps(asdict(fresh)))
        beside.replace(register)
    return Path(seen.state) if seen and seen.state != mine else None


def has_nodes(state: Path, register: Path = REGISTER) -> bool:
    """Tell whether nodes on this machine can only be this test bed's."""
    seen = holder(register)
    return seen is None or seen.state == str(state.resolve()) or not seen.is_alive()


def give_nodes_back(register: Path = REGISTER) -> None:
    register.unlink(missing_ok=True)
