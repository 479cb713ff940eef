"""Reads what the executors of a run wrote: at the hub, and at every site."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from umbel.model.event import (
    Event,
    RoundEnded,
    RunBegan,
    RunEnded,
    accuracy_of,
    from_line,
    loss_of,
)
from umbel.model.status import RunStatus

EVENTS = "events.jsonl"
LOG = "log.txt"
BOUNDARY = timedelta(seconds=1)  # so long after its end, a round counts as just over


@dataclass(slots=True)
class Tail:
    """Remembers how far a file was read; gives whole new lines only."""

    path: Path
    offset: int = 0

    def read(self) -> list[str]:
        """Give the lines since the last call."""
        try:
            with open_plain(self.path) as file:
                file.seek(self.offset)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode(errors="replace").splitlines()

    def rest(self) -> list[str]:
        """Give what is left, the last line even if nobody ended it."""
        lines = self.read()
        try:
            with open_plain(self.path) as file:
                file.seek(self.offset)
                data = file.read()
        except OSError:
            return lines
        self.offset += len(data)
        return [*lines, *data.decode(errors="replace").splitlines()]


def open_plain(path: Path | str, *, within: int | None = None) -> BinaryIO:
    """Open a file that an app may have made: neither a link elsewhere nor a pipe that never ends."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, dir_fd=within)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return os.fdopen(fd, "rb")


def read_events(folders: Iterable[Path]) -> list[Event]:
    """Give all events of a run, in the order of their time."""
    events = [
        event
        for folder in folders
        for line in Tail(folder / EVENTS).read()
        if (event := from_line(line)) is not None
    ]
    return sorted(events, key=lambda event: event.at)


def enrich(run: RunStatus, events: Sequence[Event]) -> RunStatus:
    """Add to a run's status what its events tell."""
    rounds = 0
    done = 0
    loss: float | None = None
    accuracy: float | None = None
    for event in events:
        if isinstance(event, RunBegan):
            rounds = event.rounds or 0
        elif isinstance(event, RoundEnded):
            done = max(done, event.round)
            loss = loss_of(event) if loss_of(event) is not None else loss
            accuracy = accuracy_of(event) if accuracy_of(event) is not None else accuracy
    return replace(run, rounds=rounds, rounds_done=done, loss=loss, accuracy=accuracy)


def is_over(events: Sequence[Event]) -> bool:
    """Whether the strategy has returned."""
    return any(isinstance(event, RunEnded) for event in events)


def in_round(events: Sequence[Event], now: datetime) -> bool:
    """Whether a running run is in the midst of a round.

    Rounds follow each other at once, so a boundary is the moment after one ended. An app that tells
    of no rounds could be in the midst of anything.
    """
    if is_over(events):
        return False
    ends = [event.at for event in events if isinstance(event, RoundEnded)]
    try:
        return not ends or now - datetime.fromisoformat(ends[-1]) > BOUNDARY
    except (ValueError, TypeError):  # no time, or one without a zone
        return True


def run_folders(places: Mapping[str, Path], run_id: str) -> dict[str, Path]:
    """Find the run's folder at the hub and at each site that took part."""
    found = {site: runs / run_id for site, runs in places.items()}
    return {site: folder for site, folder in found.items() if folder.is_dir()}
