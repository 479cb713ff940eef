"""What happens in a run, told by the parts that see it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, TypeAlias, get_args


@dataclass(frozen=True, slots=True)
class RunBegan:
    """The ServerApp started a strategy."""

    kind: ClassVar[str] = "run-began"
    run_id: str
    at: str
    strategy: str = ""
    rounds: int | None = None  # None: the app does not say


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """One round is over. Metrics are as the app names them."""

    kind: ClassVar[str] = "round-ended"
    run_id: str
    at: str
    round: int
    seconds: float
    replies: int = 0
    failures: int = 0
    train: Mapping[str, float] = field(default_factory=dict)
    evaluate: Mapping[str, float] = field(default_factory=dict)
    server: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """A site answered with an error, or not at all."""

    kind: ClassVar[str] = "reply-failed"
    run_id: str
    at: str
    site: str
    reason: str


@dataclass(frozen=True, slots=True)
class AppRaised:
    """An app raised an exception; `site` is "hub" for the ServerApp."""

    kind: ClassVar[str] = "app-raised"
    run_id: str
    at: str
    site: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class TaskDied:
    """A task's process ended without saying why."""

    kind: ClassVar[str] = "task-died"
    run_id: str
    at: str
    site: str
    cause: str


@dataclass(frozen=True, slots=True)
class EnvironmentBuilding:
    """The app's environment is being built; the task waits for it."""

    kind: ClassVar[str] = "environment-building"
    run_id: str
    at: str
    site: str
    dependencies: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EnvironmentReady:
    """The app's environment was built."""

    kind: ClassVar[str] = "environment-ready"
    run_id: str
    at: str
    site: str
    seconds: float


@dataclass(frozen=True, slots=True)
class EnvironmentFailed:
    """The app's environment cannot be built; `reason` has the builder's words."""

    kind: ClassVar[str] = "environment-failed"
    run_id: str
    at: str
    site: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The strategy returned; `model` names the file with the final arrays, if any."""

    kind: ClassVar[str] = "run-ended"
    run_id: str
    at: str
    seconds: float
    model: str = ""


Event: TypeAlias = (
    RunBegan
    | RoundEnded
    | ReplyFailed
    | AppRaised
    | TaskDied
    | EnvironmentBuilding
    | EnvironmentReady
    | EnvironmentFailed
    | RunEnded
)
_KINDS: dict[str, type[Event]] = {kind.kind: kind for kind in get_args(Event)}


def to_line(event: Event) -> str:
    """Write the event as one line of JSON; what is not a finite number becomes null."""
    plain = {"kind": event.kind, **asdict(event)}
    return json.dumps(_finite(plain), separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_line(line: str) -> Event | None:
    """Read an event back; a line of another version or half a line gives None."""
    try:
        data: dict[str, Any] = json.loads(line)
        kind = _KINDS[data.pop("kind")]
        known = {f.name for f in fields(kind)}
        return kind(**{name: value for name, value in data.items() if name in known})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def loss_of(event: RoundEnded) -> float | None:
    """Pick the loss: central evaluation first, then the clients', then training."""
    return _pick(event, "loss")


def accuracy_of(event: RoundEnded) -> float | None:
    """Pick the accuracy, by the same order."""
    return _pick(event, "acc")


def _pick(event: RoundEnded, word: str) -> float | None:
    for metrics in (event.server, event.evaluate, event.train):
        named = sorted((n for n in metrics if word in n.lower()), key=len)
        for name in named:
            value: float | None = metrics[name]  # null in a line that was read back
            if value is not None and math.isfinite(value):
                return value
    return None
