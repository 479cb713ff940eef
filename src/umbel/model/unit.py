"""What must exist at a site, and what was seen there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

HUB = "hub"  # the pseudo-site where gate, SuperLink and the ServerApp executor run


class Kind(StrEnum):
    """The kinds of units, in the order in which they are started."""

    SUPERLINK = "superlink"
    GATE = "gate"
    SERVER_EXEC = "server-exec"
    SUPERNODE = "supernode"
    CLIENT_EXEC = "client-exec"


STAGES: tuple[tuple[Kind, ...], ...] = (
    (Kind.SUPERLINK, Kind.GATE),
    (Kind.SERVER_EXEC, Kind.SUPERNODE),
    (Kind.CLIENT_EXEC,),
)


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing that must exist at a site. `settings` are plain values, never secrets."""

    federation: str
    site: str
    kind: Kind
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Unique in the federation."""
        return f"{self.site}/{self.kind}"

    @property
    def fingerprint(self) -> str:
        """Changes when, and only when, the definition changes."""
        text = json.dumps([self.site, self.kind, self.settings], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Health(StrEnum):
    """How a present unit does."""

    STARTING = "starting"
    READY = "ready"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class Present:
    """It was seen."""

    site: str
    kind: Kind
    fingerprint: str
    health: Health = Health.READY
    message: str = ""
    restarts: int = 0
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody could look: that is not the same as nothing there."""

    why: str


Sighting: TypeAlias = Present | Unknown
