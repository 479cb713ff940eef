"""A site, as placement and the engine see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from umbel.model.placement import Effect

EMPTY: Mapping[str, str] = MappingProxyType({})
NO_SCORES: Mapping[str, int] = MappingProxyType({})
FOR_EVER: Mapping[str, float] = MappingProxyType({})


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
    allocatable_cpu: float | None = None  # cores; None: nobody said
    allocatable_memory: float | None = None  # bytes
    capacity_cpu: float | None = None
    capacity_memory: float | None = None
    gpu: int = 0
    scores: Mapping[str, int] = field(default_factory=lambda: NO_SCORES)  # "resource/score": value
    scores_until_s: Mapping[str, float] = field(default_factory=lambda: FOR_EVER)  # by resource


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a placement uses a site, and every reason for it."""

    site: str
    chosen: bool
    reasons: tuple[str, ...]
    score: int = 0
    decision_group: str = ""  # several groups may have one name; the index tells them apart
    decision_index: int = 0
