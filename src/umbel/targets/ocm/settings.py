"""What an operator, or a person at a laptop, brings along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from umbel import __version__


@dataclass(frozen=True, slots=True)
class OcmSettings:
    """The same for all federations of a hub."""

    system: str = "umbel-system"  # the namespace of CAs
    image: str = f"umbel:{__version__}"  # where a document names none
    namespaces: tuple[str, ...] = ()  # federations are kept in these only; none: in all
    bind: frozenset[str] = frozenset()  # sets that may be bound to any namespace; "*": every set
    spread_s: float = 120.0  # how long mounted files take to reach every pod
    dial: Literal["service", "endpoint"] = "service"  # how the hub's gate is reached from here

    def binds(self, cluster_set: str) -> bool:
        """Whether the set may be bound to a namespace that asks for it."""
        return "*" in self.bind or cluster_set in self.bind
