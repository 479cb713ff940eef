"""What would be done, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from umbel.model.site import Verdict


class Action(StrEnum):
    """What a step does."""

    CREATE = "create"
    REPLACE = "replace"
    REMOVE = "remove"
    KEEP = "keep"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Step:
    """One action on one unit, with its reason."""

    action: Action
    unit: str
    site: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps from what was seen to what is wanted; `basis` names what was seen."""

    federation: str
    steps: tuple[Step, ...]
    verdicts: tuple[Verdict, ...]
    basis: str

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that would change something."""
        return tuple(s for s in self.steps if s.action not in (Action.KEEP, Action.WAIT))

    @property
    def blind(self) -> tuple[Step, ...]:
        """The steps that cannot be decided because nobody could look."""
        return tuple(s for s in self.steps if s.action is Action.WAIT)
