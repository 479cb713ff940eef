"""Kubernetes quantities (`3900m`, `16Gi`, `1e3`): exact numbers, read and written."""

from __future__ import annotations

import re
from fractions import Fraction

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,2}))?",
    re.ASCII,
)
_LONGEST = 128


def parse(text: str) -> Fraction:
    """Read a quantity exactly; anything else is a ValueError."""
    digits, ten, two = _pieces(text)
    scale = Fraction(10**ten) if ten >= 0 else Fraction(1, 10**-ten)
    return digits * (1 << two) * scale


def approximate(text: str) -> float:
    """Read a quantity as OCM's prioritizers do: digits, times a rounded power of ten."""
    digits, ten, two = _pieces(text)
    return float(digits << two) * float(f"1e{ten}")


def write(value: float) -> str:
    """Write a number in the canonical decimal form: `4`, `3900m`."""
    exact = round(Fraction(str(value)), 9)
    for suffix in ("", "m", "u", "n"):
        scaled = exact * Fraction(10 ** -_DECIMAL[suffix])
        if scaled.denominator == 1:
            break
    return f"{round(scaled)}{suffix}"


def write_bytes(value: float) -> str:
    """Write a number of bytes as clusters report memory: `16Gi`, `16367976Ki`."""
    number = round(value)
    for suffix, power in reversed(_BINARY.items()):
        if number and number % (1 << power) == 0:
            return f"{number >> power}{suffix}"
    return str(number)


def _pieces(text: str) -> tuple[int, int, int]:
    """Take the text apart: digits, power of ten, power of two."""
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not (found["whole"] or found["part"]):
        raise ValueError(f"not a quantity: {text[:_LONGEST]!r}")
    part = found["part"] or ""
    suffix = found["suffix"] or ""
    digits = int(f"{found['sign']}{found['whole']}{part}")
    ten = _DECIMAL.get(suffix, 0) + int(found["exponent"] or 0) - len(part)
    return digits, ten, _BINARY.get(suffix, 0)
