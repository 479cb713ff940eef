"""Quantities as Kubernetes writes them, turned into numbers."""

from __future__ import annotations

import re

_QUANTITY = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?(m|[kKMGT]i?)B?")
_FACTORS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def counted(text: str) -> int | float | None:
    """The number that a quantity such as 4Gi or 500m stands for; None if it is none."""
    found = _QUANTITY.fullmatch(text)
    if not found:
        return None
    number, unit = float(found[1]), found[2]
    if unit == "m":
        return number / 1000
    letter = unit[0] if unit[0] != "K" else "k"
    factor = _FACTORS[letter]
    if unit.endswith("i"):
        factor = 1024 ** (1 + "kMGT".index(letter))
    return int(number * factor)
