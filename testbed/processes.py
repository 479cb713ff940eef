"""Processes that outlive the command that started them, each known by a file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import EndedEarly, NotUp

PATIENCE = 5.0  # seconds a process may take to end after it was asked
TICK = 0.05


@dataclass(frozen=True)
class Record:
    """Who was started, and how: enough to end it, and to start it again."""

    name: str
    pid: int
    born: int  # clock ticks since boot: tells a reused pid from ours
    argv: tuple[str, ...]
    env: dict[str, str]


class Processes:
    """The processes of one test bed: a record and a log for each, in two folders."""

    def __init__(self, state: Path) -> None:
        self.records = state / "processes"
        self.logs = state / "logs"
        self.scratch = state / "tmp"

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Record:
        """Start it in a process group of its own and write down who it is."""
        for folder in (self.records, self.logs, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        added = {"TMPDIR": str(self.scratch), **(env or {})}  # OCM leaves certificates there
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **added},
                start_new_session=True,
            )
        child.returncode = 0  # it is ours to end by its record, not by this object
        record = Record(name, child.pid, born(child.pid) or 0, tuple(argv), added)
        self._write(record)
        return record

    def again(self, name: str) -> Record:
        """Start a process that was ended, as it was."""
        record = self.record(name)
        self.stop([record])
        return self.start(name, record.argv, record.env)

    def record(self, name: str) -> Record:
        try:
            return _read(self.records / f"{name}.json")
        except FileNotFoundError:
            raise NotUp(f"process {name}") from None

    def all(self) -> list[Record]:
        return [_read(path) for path in sorted(self.records.glob("*.json"))]

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def assert_runs(self, record: Record) -> None:
        if not runs(record):
            raise EndedEarly(record.name, self.last_words(record.name))

    def last_words(self, name: str, lines: int = 15) -> str:
        try:
            said = self.log(name).read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(said[-lines:])

    def kill(self, name: str) -> None:
        """End it at once, without a word; its record stays, so that it can be started again."""
        record = self.record(name)
        _signal(record, signal.SIGKILL)
        _await_end([record], PATIENCE)

    def stop(self, records: Sequence[Record]) -> None:
        """Ask all to end, wait, end by force who did not; then forget them."""
        for record in records:
            _signal(record, signal.SIGTERM)
        for record in _await_end(records, PATIENCE):
            _signal(record, signal.SIGKILL)
        _await_end(records, PATIENCE)
        for record in records:
            (self.records / f"{record.name}.json").unlink(missing_ok=True)

    def _write(self, record: Record) -> None:
        path = self.records / f"{record.name}.json"
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(record.__dict__))
        beside.replace(path)


def born(pid: int) -> int | None:
    """Tell when the process was born; nothing if it is gone or only waits to be buried."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if words[0] in "ZX" else int(words[19])


def runs(record: Record) -> bool:
    return born(record.pid) == record.born


def _read(path: Path) -> Record:
    said = json.loads(path.read_text())
    return Record(said["name"], said["pid"], said["born"], tuple(said["argv"]), said["env"])


def _signal(record: Record, number: signal.Signals) -> None:
    if runs(record):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(record.pid, number)


def _await_end(records: Sequence[Record], patience: float) -> list[Record]:
    """Wait until all are gone; give those that are not."""
    until = time.monotonic() + patience
    left = list(records)
    while True:
        for record in left:
            _bury(record.pid)
        left = [record for record in left if runs(record)]
        if not left or time.monotonic() > until:
            return left
        time.sleep(TICK)


def _bury(pid: int) -> None:
    """Take the end of a child of this very process; others are buried by init."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
