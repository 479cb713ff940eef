"""A document as a tree of values that know where they stand in the text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from umbel.documents.problems import Mark, Path

Plain: TypeAlias = str | int | float | bool | None

_INT = re.compile(r"[-+]?[0-9]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_OCTAL = re.compile(r"0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN")
_WORDS: dict[str, Plain] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DIGITS = 32  # a longer number fits no field


@dataclass(slots=True, eq=False)
class Node:
    """A value in the document; counts are of the whole tree below, aliases written out."""

    mark: Mark
    count: int = field(default=1, kw_only=True)
    size: int = field(default=1, kw_only=True)
    height: int = field(default=1, kw_only=True)

    def grow(self, child: Node) -> None:
        """Count a finished child in."""
        self.count += child.count
        self.size += child.size
        self.height = max(self.height, child.height + 1)


@dataclass(slots=True, eq=False)
class Scalar(Node):
    """Text, a number, true, false or nothing. A spoilt one has a problem already."""

    raw: str
    value: Plain
    spoilt: bool = False


@dataclass(slots=True, eq=False)
class Listing(Node):
    """A list."""

    items: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Entry:
    """A key's place, and its value."""

    mark: Mark
    node: Node


@dataclass(slots=True, eq=False)
class Mapping(Node):
    """Keys with values."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def get(self, key: str) -> Node | None:
        """The key's value, None if there is no such key."""
        entry = self.entries.get(key)
        return entry.node if entry else None


def resolved(raw: str) -> Plain:
    """Read an unquoted scalar by YAML 1.2's core schema: `on`, `off`, `yes`, `no` are text."""
    if raw in _WORDS:
        return _WORDS[raw]
    if raw[0] not in "+-.0123456789":
        return raw
    if _INT.fullmatch(raw):
        return int(raw) if len(raw) <= _DIGITS else math.inf
    if _HEX.fullmatch(raw) or _OCTAL.fullmatch(raw):
        return int(raw, 0) if len(raw) <= _DIGITS else math.inf
    if _FLOAT.fullmatch(raw):
        return float(raw)
    return math.nan if _INFINITE.fullmatch(raw) else raw


def plain(node: Node | None) -> Any:
    """Give a tree as dicts, lists and plain values."""
    match node:
        case Mapping():
            return {key: plain(entry.node) for key, entry in node.entries.items()}
        case Listing():
            return [plain(item) for item in node.items]
        case Scalar():
            return node.value
        case _:
            return None


def child(node: Node | None, *path: str | int) -> Node | None:
    """Follow a path down; None where it leaves the document."""
    for part in path:
        if isinstance(node, Mapping) and isinstance(part, str):
            node = node.get(part)
        elif isinstance(node, Listing) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            return None
    return node


def text_at(node: Node | None, *path: str | int) -> str | None:
    """The text at a path, None if there is none."""
    found = child(node, *path)
    return found.value if isinstance(found, Scalar) and isinstance(found.value, str) else None


def items_at(node: Node | None, *path: str | int) -> list[Node]:
    """The list at a path, empty if there is none."""
    found = child(node, *path)
    return found.items if isinstance(found, Listing) else []


def key_mark(root: Node, path: Path) -> Mark:
    """Where a path's key stands; for a list's item, and what has no key, where it begins."""
    parent = child(root, *path[:-1]) if path else None
    if isinstance(parent, Mapping) and (entry := parent.entries.get(str(path[-1]))):
        return entry.mark
    found = child(root, *path)
    return found.mark if found else root.mark


def nearest_mark(root: Node, path: Path) -> Mark:
    """Where a path's value begins, or the key of the nearest that is there."""
    if found := child(root, *path):
        return found.mark
    while path and child(root, *path) is None:
        path = path[:-1]
    return key_mark(root, path)
