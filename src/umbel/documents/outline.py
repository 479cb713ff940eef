"""The form of the document: its JSON Schema, and questions to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

from umbel.documents.problems import Path
from umbel.model.federation import Federation

Schema: TypeAlias = dict[str, Any]


def schema() -> Schema:
    """Give the JSON Schema of a federation document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://umbel.dev/schemas/federation.v1alpha1.json",
        **Federation.model_json_schema(by_alias=True),
    }


@cache
def _known() -> Schema:
    return Federation.model_json_schema(by_alias=True)


def _forms(form: Schema) -> Iterator[Schema]:
    """Every form that a value may have: references and alternatives followed."""
    if "$ref" in form:
        yield from _forms(_known()["$defs"][form["$ref"].rpartition("/")[2]])
    elif alternatives := form.get("anyOf") or form.get("oneOf"):
        for alternative in alternatives:
            yield from _forms(alternative)
    else:
        yield form


def _below(form: Schema, part: str | int) -> Schema | None:
    if isinstance(part, int):
        return form.get("items")
    if part in form.get("properties", {}):
        return dict(form["properties"][part])
    if patterns := form.get("patternProperties"):
        return dict(next(iter(patterns.values())))
    other = form.get("additionalProperties")
    return other if isinstance(other, dict) else None


def forms_at(path: Path) -> list[Schema]:
    """Every form that the value at a path may have."""
    found = list(_forms(_known()))
    for part in path:
        below = [b for form in found if (b := _below(form, part)) is not None]
        found = [form for b in below for form in _forms(b)]
    return found


def keys_at(path: Path) -> list[str]:
    """The keys that a mapping may have, in the order of the reference."""
    return [key for form in forms_at(path) for key in form.get("properties", {})]


def setting_at(path: Path, name: str) -> Any:
    """One property of the form at a path, such as its maximum."""
    return next((form[name] for form in forms_at(path) if name in form), None)


def choices_at(path: Path) -> list[str]:
    """The values that may be chosen from."""
    for form in forms_at(path):
        if found := form.get("enum") or ([form["const"]] if "const" in form else None):
            return [str(choice) for choice in found]
    return []


@cache
def homes() -> dict[str, list[str]]:
    """Where each key may stand: the paths of its parents, shallow ones first."""
    found: dict[str, list[str]] = {}
    level: list[tuple[str, Schema]] = [("", _known())]
    while level:
        deeper: list[tuple[str, Schema]] = []
        for where, form in level:
            for one in _forms(form):
                for key, below in one.get("properties", {}).items():
                    found.setdefault(key, []).append(where)
                    deeper.append((f"{where}.{key}".lstrip("."), below))
                if items := one.get("items"):
                    deeper.append((f"{where}[]", items))
        level = deeper
    return found
