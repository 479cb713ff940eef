"""The functions that OCM adds to CEL, as far as placements need them.

CEL knows no types of ours: a quantity or a version travels as a map with one telling key, in a
form in which equal values are equal maps. A function that cannot answer raises; the expression
then fails on that site.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import add
from types import MappingProxyType
from typing import Any

from umbel.placement import quantity
from umbel.placement.semver import Version

_QUANTITY = "~quantity"
_VERSION = "~version"
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_INT64 = 2**63


def _bool(value: bool | str) -> bool:
    return value if isinstance(value, bool) else _BOOLEANS[value]


def _parse_json(text: str) -> Any:
    return json.loads(text, parse_int=float, parse_constant=_BOOLEANS.__getitem__)


def _quantity(text: str) -> dict[str, str]:
    return {_QUANTITY: str(quantity.parse(text))}


def _semver(text: str) -> dict[str, Any]:
    found = Version.parse(text)
    return {_VERSION: [found.major, found.minor, found.patch, found.pre]}


def _holds(reader: Callable[..., Any]) -> Callable[..., bool]:
    def holds(*arguments: Any) -> bool:
        try:
            reader(*arguments)
        except ValueError:
            return False
        return True

    return holds


def _number(value: Any) -> Fraction:
    """Take a quantity, or a plain integer where Kubernetes takes one."""
    return Fraction(value) if isinstance(value, int) else Fraction(value[_QUANTITY])


def _version(value: Mapping[str, Any]) -> Version:
    return Version(*value[_VERSION])


def _compare(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    if _VERSION in one:
        return (_version(one) > _version(other)) - (_version(one) < _version(other))
    mine, yours = Fraction(one[_QUANTITY]), Fraction(other[_QUANTITY])
    return (mine > yours) - (mine < yours)


def _as_integer(value: Any) -> int:
    number = _number(value)
    if number.denominator != 1 or not -_INT64 <= number < _INT64:
        raise ValueError(f"not a 64-bit integer: {number}")
    return int(number)


def _is_sorted(values: list[Any]) -> bool:
    return all(one <= other for one, other in pairwise(values))


def _index_of(where: Any, what: Any, start: int = 0) -> int:
    if isinstance(where, list):
        return where.index(what) if what in where else -1
    if start < 0:
        raise ValueError("indexOf takes no negative position")
    return int(where.find(what, start)) if what else start


def _last_index_of(where: Any, what: Any, last: int | None = None) -> int:
    if isinstance(where, list):
        return len(where) - 1 - where[::-1].index(what) if what in where else -1
    if last is None:
        return int(where.rfind(what))
    if last < 0:
        raise ValueError("lastIndexOf takes no negative position")
    if not what:
        return last
    return int(where.rfind(what, 0, last + len(what))) if last < len(where) else -1


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    cut = len(text) if limit < 0 else limit - 1
    return [*text[:cut], text[cut:]] if text[cut:] else [*text]


def _within(text: str, *positions: int) -> None:
    if list(positions) != sorted(positions) or positions[0] < 0 or positions[-1] > len(text):
        raise ValueError(f"no such position in a string of {len(text)}: {positions}")


def _char_at(text: str, position: int) -> str:
    _within(text, position)
    return text[position : position + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    _within(text, start, stop)
    return text[start:stop]


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(change(letter) if letter.isascii() else letter for letter in text)


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "bool": _bool,
        "parseJSON": _parse_json,
        # quantities and versions
        "quantity": _quantity,
        "isQuantity": _holds(quantity.parse),
        "isInteger": _holds(_as_integer),
        "asInteger": _as_integer,
        "asApproximateFloat": lambda value: float(_number(value)),
        "sign": lambda value: (_number(value) > 0) - (_number(value) < 0),
        "add": lambda one, other: {_QUANTITY: str(_number(one) + _number(other))},
        "sub": lambda one, other: {_QUANTITY: str(_number(one) - _number(other))},
        "semver": _semver,
        "isSemver": _holds(_semver),
        "major": lambda value: _version(value).major,
        "minor": lambda value: _version(value).minor,
        "patch": lambda value: _version(value).patch,
        "isLessThan": lambda one, other: _compare(one, other) < 0,
        "isGreaterThan": lambda one, other: _compare(one, other) > 0,
        "compareTo": _compare,
        # lists
        "isSorted": _is_sorted,
        "sum": lambda values: reduce(add, values) if values else 0,
        "min": min,
        "max": max,
        "indexOf": _index_of,
        "lastIndexOf": _last_index_of,
        "join": lambda values, between="": between.join(values),
        # strings
        "charAt": _char_at,
        "lowerAscii": _ascii(str.lower),
        "upperAscii": _ascii(str.upper),
        "replace": lambda text, old, new, limit=-1: text.replace(old, new, limit),
        "reverse": lambda text: text[::-1],
        "split": _split,
        "substring": _substring,
        "trim": lambda text: text.strip(),
    }
)
