"""A finding: one judged fact, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is. Only a problem makes `umbel doctor` fail."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class DependsOn:
    """The finding follows from another one, when that one is a problem."""

    name: str
    about: str | None = None  # None: whatever it is about

    def explains(self, finding: Finding) -> bool:
        """Whether `finding` is the cause."""
        same = self.about is None or self.about == finding.about
        return finding.severity is Severity.PROBLEM and finding.name == self.name and same


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found. `about` says where, for what there may be several of."""

    name: str
    severity: Severity
    fact: str
    hint: str = ""
    about: str = ""
    depends_on: tuple[DependsOn, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Give what a program wants to read."""
        data = asdict(self)
        data.pop("depends_on")
        return {**data, "severity": str(self.severity)}


def ok(name: str, fact: str, about: str = "") -> Finding:
    """Say that all is well."""
    return Finding(name, Severity.OK, fact, about=about)


def causes(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Leave out what follows from a problem that is named too; the worst come first."""
    kept = [f for f in findings if not _is_explained(f, findings)]
    order = list(Severity)[::-1]
    return tuple(sorted(kept, key=lambda f: order.index(f.severity)))


def has_problem(findings: Iterable[Finding]) -> bool:
    """Whether something must be done."""
    return any(finding.severity is Severity.PROBLEM for finding in findings)


def _is_explained(finding: Finding, findings: Sequence[Finding]) -> bool:
    others = [other for other in findings if other is not finding]
    return any(cause.explains(other) for cause in finding.depends_on for other in others)
