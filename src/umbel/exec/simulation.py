"""One simulated run, in this process, to its end. The order comes by standard input."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from umbel.errors import UmbelError
from umbel.exec.recorder import EventFile, Recorder, now_text
from umbel.files import write_private
from umbel.flower import launch, simulation
from umbel.flower.commands import Scalar
from umbel.model.event import AppRaised, TaskDied
from umbel.model.unit import HUB

ANSWER = "answer.json"
RUN = "run"  # what a run leaves: events, log, model, metrics
EVENTS = "events.jsonl"
LOG = "log.txt"
WORK = "work"  # where the apps write
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Order:
    """What the process is told."""

    job: simulation.Job
    config: Mapping[str, Scalar]
    run_id: int

    @property
    def run(self) -> Path:
        """The run's folder."""
        return self.job.folder / RUN

    def to_json(self) -> bytes:
        """Write the order for the process's standard input."""
        return json.dumps(asdict(self), default=str).encode()

    @classmethod
    def from_json(cls, text: str) -> Order:
        """Read it there."""
        data: dict[str, Any] = json.loads(text)
        job = data["job"]
        paths = {name: Path(job[name]) for name in ("app", "folder")}
        return cls(simulation.Job(**{**job, **paths}), data["config"], int(data["run_id"]))


class _Ending:
    """Collects what apps raise, and ends the process with an answer, whatever happened."""

    def __init__(self, order: Order, events: EventFile) -> None:
        self._order = order
        self._events = events
        self._failed = ""
        self.app = ""

    def report(self, raised: simulation.Raised) -> None:
        """Take what an app raised; a ClientApp's exception fails its reply, not the run."""
        at = (str(self._order.run_id), now_text(), raised.place)
        if raised.place in (HUB, simulation.EVERY_NODE):
            self._failed = raised.message
        if raised.traceback:
            self._events.append(AppRaised(*at, raised.message, raised.traceback))
        else:
            self._events.append(TaskDied(*at, raised.message))

    def uncaught(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """End with what nobody caught: the app's exception, else the engine's or Ray's."""
        sys.__excepthook__(kind, error, trace)
        self._failed = self._failed or _root(error)
        self.leave()

    def leave(self, problem: UmbelError | None = None) -> NoReturn:
        """Write the answer and end at once; threads of a failed engine may never end."""
        answer: dict[str, Any] = {
            "status": "failed" if self._failed else "completed",
            "details": self._failed,
        }
        if problem is not None:
            answer = {"problem": problem.as_problem()}
        write_private(self._order.job.folder / ANSWER, json.dumps({"app": self.app, **answer}))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if self._failed or problem else 0)


def _root(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def carry_out(order: Order) -> NoReturn:
    """Simulate, and end this process with an answer in the job's folder."""
    events = EventFile(order.run / EVENTS)
    ending = _Ending(order, events)
    sys.excepthook = ending.uncaught
    try:
        app = simulation.install(order.job, order.config)
    except UmbelError as error:
        ending.leave(error)
    ending.app = app.name
    launch.plain_logs()
    recorder = Recorder(order.run_id, order.run, events)
    run = (order.run_id, order.config)
    simulation.simulate(order.job, app, run, recorder, ending.report)
    ending.leave()


def main() -> NoReturn:
    """Carry out the order of standard input; die with who gave it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    order = Order.from_json(sys.stdin.read())
    os.chdir(order.run / WORK)
    carry_out(order)


if __name__ == "__main__":
    main()
