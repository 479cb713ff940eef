"""The definition of federations keeps the rules of Kubernetes and says what the model says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from umbel.documents import load, schema
from umbel.targets.ocm.crd import document, federation_crd
from umbel.targets.ocm.crd_rules import RULES, SETTINGS

Schema = dict[str, Any]

VERSION = federation_crd()["spec"]["versions"][0]
ROOT: Schema = VERSION["schema"]["openAPIV3Schema"]
REFUSED = {
    *("$ref", "anyOf", "oneOf", "allOf", "not", "title", "const", "patternProperties"),
    *("propertyNames", "definitions", "$defs", "exclusiveMinimum", "exclusiveMaximum"),
}
REASONS = {"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"}


def forms(form: Schema = ROOT, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, form
    for name, below in form.get("properties", {}).items():
        yield from forms(below, f"{path}.{name}")
    if "items" in form:
        yield from forms(form["items"], f"{path}[]")
    if isinstance(more := form.get("additionalProperties"), dict):
        yield from forms(more, f"{path}{{}}")


FORMS = dict(forms())


def test_every_form_has_a_type_and_nothing_that_kubernetes_refuses() -> None:
    free = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    untyped = [p for p, f in FORMS.items() if "type" not in f and not any(k in f for k in free)]
    assert untyped == []
    refused = {path: REFUSED & set(form) for path, form in FORMS.items() if REFUSED & set(form)}
    assert refused == {}
    assert not [p for p, f in FORMS.items() if "properties" in f and "additionalProperties" in f]


def test_everything_that_can_be_large_has_a_bound() -> None:
    bounds = {"array": "maxItems", "string": "maxLength"}
    unbound = [
        path
        for path, form in FORMS.items()
        if path.startswith((".spec", ".status"))
        and (bound := bounds.get(form.get("type", "")))
        and bound not in form
        and "enum" not in form
        and "format" not in form
    ]
    assert unbound == []
    maps = [p for p, f in FORMS.items() if "additionalProperties" in f and "maxProperties" not in f]
    assert maps == []


def test_every_key_of_the_model_is_there_but_local_sites() -> None:
    known = schema()["$defs"]
    keys = {
        key
        for name, form in known.items()
        if name not in ("Metadata", "DeclaredSite", "Taint", "Resources")
        for key in form.get("properties", {})
    }
    shown = {path.rpartition(".")[2].rstrip("[]{}") for path in FORMS if path.startswith(".spec")}
    assert keys - shown == {"sites"}
    assert shown - keys == {"spec", "true"}


def test_every_field_says_what_it_means() -> None:
    fields = re.compile(r"\.spec\.|\.status\.")
    silent = [
        path
        for path, form in FORMS.items()
        if fields.match(path)
        and not path.endswith(("[]", "{}"))
        and "description" not in form
        and path != ".status.conditions[].status"
    ]
    assert silent == []


def test_plain_defaults_are_kept_and_addresses_have_none() -> None:
    assert FORMS[".spec.runtime.exec"]["default"] == "warm"
    assert FORMS[".spec.superlink.kubernetes.storage.size"]["default"] == "10Gi"
    assert FORMS[".spec.groups[].kubernetes.rollout.maxConcurrent"]["default"] == "25%"
    for key in ("endpoint", "listen", "on"):
        assert "default" not in FORMS[f".spec.superlink.{key}"]
    assert not [p for p, f in FORMS.items() if isinstance(f.get("default"), dict | list)]


def test_a_number_or_a_percentage_is_one_field() -> None:
    form = FORMS[".spec.groups[].kubernetes.rollout.maxConcurrent"]
    assert form["x-kubernetes-int-or-string"] is True
    assert form["minimum"] == 1
    assert form["pattern"].endswith("%$")


def test_lists_of_named_things_are_merged_by_name() -> None:
    named = [".spec.groups", ".spec.security.users", ".spec.runtime.environments"]
    for path in named:
        assert FORMS[path]["x-kubernetes-list-map-keys"] == ["name"]
        assert "name" in FORMS[f"{path}[]"]["required"]
    assert FORMS[".status.conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    assert FORMS[".status.sites"]["x-kubernetes-list-type"] == "atomic"


def test_every_rule_is_used_and_has_a_message_and_a_reason() -> None:
    used = json.dumps([form.get("x-kubernetes-validations", []) for form in FORMS.values()])
    for rules in RULES.values():
        for rule in rules:
            assert json.dumps(rule["rule"])[1:-1] in used
            assert 10 < len(rule["message"]) < 200
            assert rule["reason"] in REASONS


def test_every_setting_is_about_a_field_of_the_model() -> None:
    known = schema()["$defs"]
    for name, field in SETTINGS:
        assert field in known[name]["properties"]


def test_the_definition_is_the_same_every_time() -> None:
    assert json.dumps(federation_crd()) == json.dumps(federation_crd())


def test_a_resource_is_read_as_the_document_that_it_holds() -> None:
    held = {
        "apiVersion": "umbel.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": "a", "namespace": "b", "uid": "1", "managedFields": [], "labels": {}},
        "spec": {"superlink": {"true": "ocm"}, "groups": [{"name": "c", "true": "ocm"}]},
        "status": {"phase": "Ready"},
    }
    before = json.dumps(held)
    federation = load(json.dumps(document(held)))
    assert (federation.name, federation.metadata.namespace) == ("a", "b")
    assert (federation.spec.superlink.on, federation.spec.groups[0].on) == ("ocm", "ocm")
    assert json.dumps(held) == before


@pytest.mark.parametrize("spec", [{}, {"groups": None}, {"superlink": "x", "groups": ["y", 3]}])
def test_a_resource_of_any_shape_is_read(spec: Schema) -> None:
    assert document({"spec": spec})["spec"] == spec
