"""What an executor needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ExecSettings:
    """One executor serves one Runtime API: the hub's or a site's."""

    site: str
    address: str  # of the Runtime API
    ca: Path
    secret: Path  # what SuperExec proves itself with
    flower_home: Path
    runs: Path  # one folder a run: log, events, what the app wrote
    tasks: Path  # one file a task that runs now
    wake: Path  # poked when there is a task
    warm: bool = True
    poll_s: float = 1.0
    task_timeout_s: float = 86_400.0


def from_json(data: Mapping[str, Any]) -> ExecSettings:
    """Read settings that crossed a process border."""
    return ExecSettings(
        site=str(data["site"]),
        address=str(data["address"]),
        ca=Path(data["ca"]),
        secret=Path(data["secret"]),
        flower_home=Path(data["flower_home"]),
        runs=Path(data["runs"]),
        tasks=Path(data["tasks"]),
        wake=Path(data["wake"]),
        warm=bool(data["warm"]),
        poll_s=float(data["poll_s"]),
        task_timeout_s=float(data["task_timeout_s"]),
    )


def run_folder(settings: ExecSettings, run_id: int) -> Path:
    """Give the run's folder, which need not exist."""
    return settings.runs / str(run_id)
