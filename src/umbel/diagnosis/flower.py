"""Judges the installed Flower."""

from __future__ import annotations

from collections.abc import Iterator

from umbel.diagnosis.facts import Facts, Unseen
from umbel.diagnosis.finding import DependsOn, Finding, Severity, ok
from umbel.flower.versions import SUPPORTED, FlowerMissing, FlowerUnsupported

SHOWN = 5


def version(facts: Facts) -> Iterator[Finding]:
    """Flower is there, in a version that we know."""
    found = facts.flower.version
    if not found:
        missing = FlowerMissing()
        yield Finding("FlowerMissing", Severity.PROBLEM, missing.fact, missing.hint)
    elif not any(known.supports(found) for known in SUPPORTED):
        unknown = FlowerUnsupported(found)
        yield Finding("FlowerUnsupported", Severity.PROBLEM, unknown.fact, unknown.hint)
    else:
        yield ok("Flower", f"Flower {found}")


def selftest(facts: Facts) -> Iterator[Finding]:
    """What we know of Flower is true of the installed one."""
    found = facts.flower.mismatches
    known = (DependsOn("FlowerMissing"), DependsOn("FlowerUnsupported"))
    if isinstance(found, Unseen):
        yield Finding(
            "FlowerSelfTestFailed",
            Severity.PROBLEM,
            f"Flower could not be tested: {found.why}",
            "python -m umbel.flower.selftest shows more; reinstall flwr in this environment",
            depends_on=known,
        )
    elif found:
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        yield Finding(
            "FlowerDiffers",
            Severity.PROBLEM,
            f"the installed Flower is not as Umbel knows it: {'; '.join(found[:SHOWN])}{more}",
            "pip install --force-reinstall flwr in a supported version",
            depends_on=known,
        )
    else:
        yield ok("FlowerSelfTest", "flags, routes and functions are as known; it calls nobody")
