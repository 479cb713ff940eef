"""What is: conditions, sites, certificates, runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Condition:
    """A judged fact. `status` is True, False or Unknown, as in Kubernetes."""

    type: str
    status: str
    reason: str
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A SuperNode as the SuperLink knows it."""

    node_id: int
    name: str
    status: str  # registered, online, offline, unregistered
    fingerprint: str  # sha256 of the public key's DER form
    online_until: str = ""
    last_activated_at: str = ""


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """One site and how it does."""

    name: str
    group: str
    target: str
    chosen: bool
    state: str  # online, offline, starting, failing, unknown, not-chosen
    partition_id: int | None = None
    node_id: str = ""
    fingerprint: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    version: str = ""  # what the site says that it runs


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """A certificate and when it ends (ISO 8601, UTC)."""

    name: str
    subject: str
    not_after: str
    days_left: int


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run of a Flower app."""

    run_id: str
    app: str
    status: str  # pending, starting, running, completed, failed, stopped, unknown
    details: str = ""
    rounds_done: int = 0
    rounds: int = 0
    loss: float | None = None
    accuracy: float | None = None
    started_at: str = ""
    finished_at: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.status in ("completed", "failed", "stopped")


@dataclass(frozen=True, slots=True)
class Rounds:
    """Whether now is a good moment to restart something."""

    active_runs: int
    in_round: bool


@dataclass(frozen=True, slots=True)
class Admission:
    """Which sites may enter now, which newly, which no more, and which may not and why."""

    nodes: Mapping[str, int]
    admitted: Sequence[str]
    expelled: Sequence[str]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FederationStatus:
    """The whole picture of one federation."""

    name: str
    phase: str  # Ready, Progressing, Degraded, Down, Unknown
    endpoint: Mapping[str, str]
    versions: Mapping[str, str]
    conditions: tuple[Condition, ...]
    sites: tuple[SiteStatus, ...]
    certificates: tuple[CertificateStatus, ...]
    runs: tuple[RunStatus, ...] | None  # None: nobody could look
