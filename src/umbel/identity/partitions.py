"""Partition ids that stick: a site keeps its number for ever, gone or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import count

_DIGITS = re.compile(r"([0-9]+)")


def natural(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort as people count: site-2 before site-10."""
    parts = _DIGITS.split(name)  # text and digits in turn, so that like meets like
    return tuple(int(p) if i % 2 else p for i, p in enumerate(parts)), name


def assign(names: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """Give every new name the lowest id that no remembered name has; forget nobody.

    The answer holds the known names too, present or not: store it and pass it in again.
    """
    taken = set(known.values())
    free = (i for i in count() if i not in taken)
    new = sorted(set(names) - known.keys(), key=natural)
    return dict(known) | dict(zip(new, free, strict=False))
