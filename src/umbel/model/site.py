"""A site, as placement and the engine see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from umbel.model.placement import Effect

EMPTY: Mapping[str, str] = MappingProxyType({})
NO_SCORES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TaintSeen:
    """A taint on a site; `since_s` is when it was added (epoch seconds)."""

    key: str
    value: str = ""
    effect: Effect = Effect.NO_SELECT
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a SuperNode can run: a cluster, a VM, a machine, a local slot."""

    name: str
    target: str = "local"
    cluster_set: str = "default"
    labels: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    claims: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    taints: tuple[TaintSeen, ...] = ()
    allocatable_cpu: float = 0.0
    allocatable_memory: int = 0
    capacity_cpu: float = 0.0
    capacity_memory: int = 0
    gpu: int = 0
    scores: Mapping[str, int] = field(default_factory=lambda: NO_SCORES)  # "resource/score": value


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a placement uses a site, and every reason for it."""

    site: str
    chosen: bool
    reasons: tuple[str, ...]
    score: int = 0
    decision_group: str = ""
