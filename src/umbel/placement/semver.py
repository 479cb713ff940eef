"""Semantic versions (semver.org 2.0.0), compared as Kubernetes' CEL library does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Self

_NUMBER = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_FORM = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LONGEST = 256


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """Major, minor, patch and what comes before a release; build data counts for nothing."""

    major: int
    minor: int
    patch: int
    pre: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a version in full, without a leading v; anything else is a ValueError."""
        found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
        if found is None:
            raise ValueError(f"not a semantic version: {text[:_LONGEST]!r}")
        return cls(int(found[1]), int(found[2]), int(found[3]), found[4] or "")

    def __lt__(self, other: Version) -> bool:
        return self._precedence() < other._precedence()

    def _precedence(self) -> tuple[object, ...]:
        # a release comes after all that leads to it; numbers come before words
        words = tuple(
            (0, int(word), "") if word.isdigit() else (1, 0, word)
            for word in self.pre.split(".")
            if word
        )
        return (self.major, self.minor, self.patch, not self.pre, words)
