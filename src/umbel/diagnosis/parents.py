"""Judges the parents of tasks."""

from __future__ import annotations

from collections.abc import Iterator

from umbel.diagnosis.facts import Facts
from umbel.diagnosis.finding import Finding, Severity


def forking(facts: Facts) -> Iterator[Finding]:
    """Tasks start fast where their parent can fork."""
    for parent in facts.unsafe:
        yield Finding(
            "ForkUnsafe",
            Severity.NOTE,
            f"tasks of environment {parent.environment} start in fresh processes, "
            f"because forking is not safe there: {parent.why}",
            "nothing is wrong, only slower: a package that the app declares does this when it is "
            "imported; spec.runtime.exec: fresh makes it so for every app",
            about=parent.environment,
        )
