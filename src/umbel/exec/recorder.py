"""Turns what the instruments see into events and files."""

from __future__ import annotations

import contextlib
import json
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from umbel.flower.instruments import Metrics
from umbel.model.event import (
    AppRaised,
    Event,
    ReplyFailed,
    RoundEnded,
    RunBegan,
    RunEnded,
    to_line,
)

MODEL = "model.npz"
METRICS = "metrics.json"


def now_text() -> str:
    """Give the time as events write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class EventFile:
    """Appends events to a file, one write each, so that readers never see half of one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, event: Event) -> None:
        """Add the event; a full disk costs the event, not the run."""
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(to_line(event) + "\n")


class Recorder:
    """Follows one ServerApp: rounds, metrics, failures, the final model."""

    def __init__(self, run_id: int, folder: Path, events: EventFile) -> None:
        self._run_id = str(run_id)
        self._folder = folder
        self._events = events
        self._strategy_runs = False
        self._began_s = time.monotonic()
        self._round_s = self._began_s
        self._round = 0
        self._counts = [0, 0]
        self._stages: dict[str, Metrics] = {}
        self._history: list[dict[str, Any]] = []

    def began(self, strategy: str, rounds: int | None) -> None:
        """A strategy starts."""
        self._strategy_runs = True
        self._events.append(RunBegan(self._run_id, now_text(), strategy, rounds))

    def round_began(self, number: int) -> None:
        """A round starts."""
        self._round, self._round_s = number, time.monotonic()
        self._counts, self._stages = [0, 0], {}

    def exchanged(self, replies: int, failures: int, metrics: Metrics) -> None:
        """Messages went out and answers came back; without a strategy this is the round."""
        self._counts[0] = max(self._counts[0], replies)
        self._counts[1] = max(self._counts[1], failures)  # a site may fail at each stage
        if not self._strategy_runs:
            self._round += 1
            self._stages = {"evaluate": metrics}
            self._end_round()
            self._save_metrics()  # nobody says when such an app is done

    def counted(self, replies: int, failures: int) -> None:
        """The strategy itself says how many answered: older apps send to each node apart."""
        self._counts = [replies, failures]

    def failed(self, node: str, reason: str) -> None:
        """A site's answer was an error."""
        self._events.append(ReplyFailed(self._run_id, now_text(), node, reason))

    def measured(self, stage: str, number: int, metrics: Metrics, *, last: bool) -> None:
        """A stage of a round gave metrics; after the last one the round is over."""
        self._round = number
        self._stages[stage] = metrics
        if last:
            self._end_round()

    def ended(self, arrays: Callable[[], dict[str, Any]] | None) -> None:
        """The strategy is over, well or not: keep the newest model and all metrics."""
        model = ""
        with contextlib.suppress(ValueError, TypeError):  # not every model is made of arrays
            model = self._save_model(arrays() if arrays is not None else {})
        self._save_metrics()
        seconds = round(time.monotonic() - self._began_s, 3)
        self._events.append(RunEnded(self._run_id, now_text(), seconds, model))

    def _save_metrics(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / METRICS).write_text(json.dumps(self._history, indent=1))

    def _end_round(self) -> None:
        event = RoundEnded(
            self._run_id,
            now_text(),
            self._round,
            round(time.monotonic() - self._round_s, 3),
            self._counts[0],
            self._counts[1],
            self._stages.get("train", {}),
            self._stages.get("evaluate", {}),
            self._stages.get("server", {}),
        )
        self._events.append(event)
        self._history.append(json.loads(to_line(event)))
        self._round_s, self._counts, self._stages = time.monotonic(), [0, 0], {}

    def _save_model(self, arrays: dict[str, Any]) -> str:
        if not arrays:
            return ""
        import numpy as np  # noqa: PLC0415  # only a ServerApp's process needs it

        half = self._folder / f".{MODEL}"
        try:
            with half.open("wb") as file:
                np.savez(file, **arrays)
            half.replace(self._folder / MODEL)
        except OSError:
            half.unlink(missing_ok=True)
            return ""
        return MODEL


def raised(run_id: int, site: str, message: str, error: BaseException) -> AppRaised:
    """Describe an app's exception with its whole traceback."""
    text = "".join(traceback.format_exception(error))
    return AppRaised(str(run_id), now_text(), site, message, text)
