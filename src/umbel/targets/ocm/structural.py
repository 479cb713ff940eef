"""From a model's JSON Schema to the structural form that Kubernetes takes for custom resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

# Every text, list and mapping has an upper bound: without one the cost of a CEL rule cannot be told.
LONGEST_TEXT = 4096
MOST_ITEMS = 64
MOST_ENTRIES = 128

_KEPT = (
    *("description", "type", "enum", "pattern", "required"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties"),
)
_BOUNDS = ("pattern", "minimum", "maximum")
_INT_OR_TEXT = {"integer", "string"}


def structural(form: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Write a schema without references, alternatives and whatever else Kubernetes refuses."""
    form = _followed(form, definitions)
    branches = [_followed(b, definitions) for b in form.get("anyOf", ())]
    if branches:
        return _one_of(form, branches, definitions)
    made = {key: form[key] for key in form if key in _KEPT or key.startswith("x-kubernetes-")}
    if "const" in form:
        made |= {"enum": [form["const"]]}
    match form.get("type"):
        case "object":
            made |= _object(form, definitions)
        case "array":
            made["items"] = structural(form["items"], definitions)
            made.setdefault("maxItems", MOST_ITEMS)
        case "string" if "enum" not in made:
            made.setdefault("maxLength", LONGEST_TEXT)
    return made | _default(form)


def _followed(form: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Put what a reference names in its place; what stands beside the reference counts more."""
    if "$ref" not in form:
        return form
    named = definitions[form["$ref"].rpartition("/")[2]]
    return named | {key: value for key, value in form.items() if key != "$ref"}


def _one_of(form: Schema, branches: list[Schema], definitions: Mapping[str, Schema]) -> Schema:
    """Join alternatives: a value or nothing, a number or text, or any plain value."""
    about = {key: form[key] for key in form if key == "description" or key.startswith("x-kube")}
    real = [b for b in branches if b.get("type") != "null"]
    nullable: Schema = {"nullable": True} if len(real) < len(branches) else {}
    if len(real) == 1:
        only = structural(real[0], definitions)
        # An API server knows no choice that is nothing: such a key is left out instead.
        return only | about | ({} if "enum" in only else nullable) | _default(form)
    if {b.get("type") for b in real} == _INT_OR_TEXT:
        both: Schema = {"x-kubernetes-int-or-string": True}
        both |= {key: value for b in real for key, value in b.items() if key in _BOUNDS}
        return both | about | nullable | _default(form)
    # Kubernetes has no form for "text, a number or true": the operator's own reading checks these.
    return {"x-kubernetes-preserve-unknown-fields": True, **about}


def _object(form: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Write an object with known keys, or a mapping; the form of a mapping's keys has no place."""
    if "properties" in form:
        fields = form["properties"].items()
        return {"properties": {name: structural(f, definitions) for name, f in fields}}
    values: list[Schema] = list(form.get("patternProperties", {}).values())
    below = structural((values or [form["additionalProperties"]])[0], definitions)
    return {"additionalProperties": below, "maxProperties": form.get("maxProperties", MOST_ENTRIES)}


def _default(form: Schema) -> Schema:
    """Keep the default of a plain value. A whole object filled in would only swell what is stored."""
    value = form.get("default")
    return {"default": value} if isinstance(value, str | int | float) and value != "" else {}
