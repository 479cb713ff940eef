"""From a tree to a federation, or to every place where the form is not kept."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from umbel.documents.explain import Finding, explained, suggestion
from umbel.documents.nodes import Mapping, Node, Scalar, child, key_mark, plain
from umbel.documents.problems import LIMIT, Path, Problem, Text
from umbel.model.document import Spec
from umbel.model.federation import Federation

S = TypeVar("S", bound=Spec)

_LOOKED_AT = 2000  # broken rules; a document with more of them is hopeless anyway
_HEADER: tuple[Path, ...] = (("apiVersion",), ("kind",))


@dataclass(frozen=True, slots=True)
class Shape:
    """A federation, or what kept the tree from being one."""

    federation: Federation | None
    problems: tuple[Problem, ...] = ()
    left_out: int = 0  # further problems, not put into words
    foreign: bool = False  # another kind of document: its other problems say nothing


def shaped(root: Mapping, text: Text) -> Shape:
    """Read the tree as a federation."""
    try:
        return Shape(_read(Federation, root))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
    groups = _worth_telling([_finding(root, error) for error in errors[:_LOOKED_AT]])
    if header := [group for group in groups if group[0].path in _HEADER]:
        return Shape(None, tuple(_problem(text, group) for group in header), foreign=True)
    problems = tuple(_problem(text, group) for group in groups[:LIMIT])
    hidden = max(0, len(errors) - _LOOKED_AT) + len(groups) - len(problems)
    return Shape(None, problems, left_out=hidden)


def read_part(kind: type[S], node: Node) -> S | None:
    """Read a part of the tree by itself; None if its form is not kept."""
    try:
        return _read(kind, node)
    except ValidationError:
        return None


def _read(kind: type[S], node: Node) -> S:
    """Validate as JSON: strict about types, and lists and enums are still written plainly."""
    return kind.model_validate_json(
        json.dumps(plain(node)), strict=True, by_alias=True, by_name=False
    )


def _finding(root: Mapping, error: Any) -> Finding:
    """Find the place in the tree that an error is about; names of branches are left out."""
    rule: str = error["type"]
    path, node, on_key = _follow(root, error["loc"])
    on_key = on_key or rule == "extra_forbidden"
    if rule == "missing":
        path, node = (*path, error["loc"][-1]), None
        mark = key_mark(root, path[:-1])
    elif on_key:
        mark = key_mark(root, path)
    else:
        mark = node.mark if node else root.mark
    return Finding(rule, path, mark, node, on_key, error.get("ctx", {}), error["msg"])


def _follow(root: Node, loc: Iterable[str | int]) -> tuple[Path, Node | None, bool]:
    path: list[str | int] = []
    node: Node = root
    on_key = False
    for part in loc:
        below = child(node, part)
        if below is not None:
            path.append(part)
            node = below
        elif part == "[key]":
            on_key = True
    return tuple(path), node, on_key


def _worth_telling(found: list[Finding]) -> list[list[Finding]]:
    """Group findings by place, without those that only follow from another."""
    above = {f.path[:n] for f in found for n in range(len(f.path))}
    meant = {(*f.path[:-1], suggestion(f)) for f in _first(found, "extra_forbidden")}
    places: dict[tuple[Path, bool], list[Finding]] = defaultdict(list)
    for finding in found:
        echo = finding.path in above and (finding.is_type or finding.rule == "too_short")
        slip = finding.rule == "missing" and finding.path in meant
        spoilt = isinstance(finding.node, Scalar) and finding.node.spoilt and not finding.on_key
        if not (echo or slip or spoilt):
            places[finding.path, finding.on_key].append(finding)
    return sorted(places.values(), key=lambda group: group[0].mark)


def _first(found: list[Finding], rule: str) -> list[Finding]:
    return [finding for finding in found if finding.rule == rule][:LIMIT]


def _problem(text: Text, group: list[Finding]) -> Problem:
    kind, fact, hint = explained(group)
    return text.problem(kind, fact, hint, at=group[0].mark, path=group[0].path)
