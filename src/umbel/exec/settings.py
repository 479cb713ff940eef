"""What an executor needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from umbel.exec.limits import NO_LIMIT, Share


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
    nursery: Path  # the socket of who starts parents
    parents: Path  # the parents' sockets, logs and notes; all executors of a home share them
    warm: bool = True
    poll_s: float = 1.0
    task_timeout_s: float = 86_400.0
    per_task: Share = NO_LIMIT
    has: Share = NO_LIMIT  # what the site declares
    wheels: Path | None = None
    provides: bool = False  # an app may run in the executor's own environment, if that has it all
    drains: bool = False  # told to stop, it serves until nobody offers tasks any more
    environment: str = ""  # it serves one app alone, for a SuperNode elsewhere

    @property
    def reached(self) -> Path:
        """There while who offers tasks can be reached; kept where that is elsewhere."""
        return self.wake.with_suffix(".reached")


_PATHS = ("ca", "secret", "flower_home", "runs", "tasks", "wake", "nursery", "parents")


def from_json(data: Mapping[str, Any]) -> ExecSettings:
    """Read settings that crossed a process border."""
    return ExecSettings(
        **{name: Path(data[name]) for name in _PATHS},
        site=str(data["site"]),
        address=str(data["address"]),
        warm=bool(data["warm"]),
        poll_s=float(data["poll_s"]),
        task_timeout_s=float(data["task_timeout_s"]),
        per_task=Share.read(data.get("per_task", {})),
        has=Share.read(data.get("has", {})),
        wheels=Path(data["wheels"]) if data.get("wheels") else None,
        provides=bool(data.get("provides")),
        drains=bool(data.get("drains")),
        environment=str(data.get("environment", "")),
    )


def to_json(settings: ExecSettings) -> dict[str, Any]:
    """Write settings that cross a process border."""
    return {name: str(v) if isinstance(v, Path) else v for name, v in asdict(settings).items()}


def run_folder(settings: ExecSettings, run_id: int) -> Path:
    """Give the run's folder, which need not exist."""
    return settings.runs / str(run_id)
