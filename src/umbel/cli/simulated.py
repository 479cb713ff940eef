"""A simulated run: its process, and what it tells, in the form that the follower knows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self

from umbel.agent.processes import Process, become_subreaper, tree
from umbel.agent.supervisor import end_processes
from umbel.errors import Relayed, WorldError
from umbel.exec.recorder import now_text
from umbel.exec.simulation import ANSWER, EVENTS, LOG, WORK, Order
from umbel.files import CannotWrite, ensure_private_folder
from umbel.flower import simulation
from umbel.model.event import from_line, to_line
from umbel.model.status import RunStatus
from umbel.observe.runs import Tail, enrich, read_events

LOOK_AGAIN_S = 0.1
SHORT = 40  # longer, and Ray's sockets below the folder have paths that no system takes
LAST_LINES = 8


class SimulationDied(WorldError):
    """The simulation's process ended without an answer."""

    code = "U230"

    def __init__(self, how: str, last_words: str) -> None:
        super().__init__(
            f"the simulation's process {how}" + (f":\n{last_words}" if last_words else ""),
            hint="when memory ran out, fewer nodes at a time help: raise --cpus",
        )


def private_folder() -> Path:
    """Make a folder that only we can open, with a path short enough for Ray."""
    place = tempfile.gettempdir()
    try:
        return Path(tempfile.mkdtemp(prefix="umbel-", dir=place if len(place) < SHORT else "/tmp"))  # noqa: S108
    except OSError as error:
        raise CannotWrite(Path(place), error) from error


class Simulated:
    """One simulated run. Leaving the block ends its processes and removes its files."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._process: subprocess.Popen[bytes] | None = None
        self._before: set[Process] = set()

    def __enter__(self) -> Self:
        """Be the parent of all that the simulation starts, also of what loses its own."""
        become_subreaper()
        self._before = set(tree({os.getpid()}))
        signal.signal(signal.SIGTERM, _leave)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run(end_processes(set(tree({os.getpid()})) - self._before))
        if self._process is not None:
            self._process.wait()
        _reap()
        shutil.rmtree(self._order.job.folder, ignore_errors=True)

    @property
    def left_files(self) -> list[Path]:
        """What the apps wrote into their working folder."""
        return [path for path in (self._order.run / WORK).rglob("*") if path.is_file()]

    def save(self, folder: Path) -> None:
        """Keep model, metrics, log, events and what the apps wrote."""
        try:
            shutil.copytree(self._order.run, folder, dirs_exist_ok=True)
        except shutil.Error as error:
            raise CannotWrite(folder, OSError(str(error))) from error
        except OSError as error:
            raise CannotWrite(folder, error) from error

    def events(self, _: str, run: str, /) -> Iterator[Any]:
        """Run the simulation; gives its events as they happen, and its status first and last."""
        began = now_text()
        yield {"kind": "status", "status": "starting"}
        process = self._start()
        tail = Tail(self._order.run / EVENTS)
        while True:
            ended = process.poll() is not None
            for line in tail.read():
                if (event := from_line(line)) is not None:
                    yield json.loads(to_line(event))
            if ended:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_AGAIN_S)
        answer = self._answer(process.returncode)
        status = RunStatus(
            run_id=run,
            app=answer["app"],
            status=answer["status"],
            details=answer["details"],
            started_at=began,
            finished_at=now_text(),
        )
        found = enrich(status, read_events([self._order.run]))
        yield {"kind": "status", **asdict(found)}

    def _start(self) -> subprocess.Popen[bytes]:
        order = self._order
        ensure_private_folder(order.run / WORK)
        simulation.prepare(order.job)
        log = os.open(order.run / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(log, "ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "umbel.exec.simulation"],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=simulation.environment(order.job),
                start_new_session=True,
            )
        self._process = process
        assert process.stdin is not None  # noqa: S101  # asked for above
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(order.to_json())
        return process

    def _answer(self, code: int) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads((self._order.job.folder / ANSWER).read_text())
        except (OSError, ValueError):
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            lines = Tail(self._order.run / LOG).rest()[-LAST_LINES:]
            raise SimulationDied(how, "\n".join(lines)) from None
        if "problem" in answer:
            raise Relayed(answer["problem"])
        return answer


def _reap() -> None:
    """Take note of the end of what we became the parent of."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _leave(number: int, _: FrameType | None) -> NoReturn:
    """End as asked, but properly."""
    raise SystemExit(128 + number)
