"""The document as a custom resource: its definition, made from the model.

`kubectl` and Helm read YAML 1.1, where a bare `on` is true: `on: ocm` reaches the API server as
`"true": "ocm"`. The definition therefore knows that key too, and `document` turns it back.

Nothing local is in it: what runs on one machine is for `umbel up` there. So `sites`, which is for
local groups alone and has no structural form (a number or a list), is left out as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from umbel.model.federation import FederationSpec
from umbel.targets.ocm.crd_rules import LONGEST_NAME, RULES, SETTINGS
from umbel.targets.ocm.crd_status import status_schema
from umbel.targets.ocm.names import GROUP
from umbel.targets.ocm.structural import Schema, structural

VERSION = "v1alpha1"
KIND = "Federation"
PLURAL = "federations"
BARE_ON = "true"  # what YAML 1.1 makes of the key `on`

_TOLD = {
    "SuperLink": "What hosts the hub: ocm, which is this cluster.",
    "Group": "What hosts the group's sites: ocm, the clusters that this hub manages.",
}


def federation_crd() -> dict[str, Any]:
    """Give the CustomResourceDefinition of a federation."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": _columns(),
        "schema": {"openAPIV3Schema": _schema()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": "federation",
                "shortNames": ["fed"],
                "categories": ["umbel"],
            },
            "versions": [version],
        },
    }


def document(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Give the document that a custom resource holds, as the reader of documents takes it."""
    told = resource.get("metadata", {})
    kept = ("name", "namespace", "labels", "annotations")
    spec = deepcopy(dict(resource.get("spec", {})))
    for part in (spec.get("superlink"), *(spec.get("groups") or ())):
        if isinstance(part, dict) and BARE_ON in part:
            part.setdefault("on", part.pop(BARE_ON))
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {key: told[key] for key in kept if key in told},
        "spec": spec,
    }


def _columns() -> list[dict[str, Any]]:
    ready = '.status.conditions[?(@.type=="Ready")]'
    shown = [
        ("Phase", "string", ".status.phase", 0),
        ("Sites", "string", ".status.sitesText", 0),
        ("Runs", "integer", ".status.runsActive", 0),
        ("Endpoint", "string", ".status.endpoint.fleet", 0),
        ("Reason", "string", f"{ready}.reason", 1),
        ("Message", "string", f"{ready}.message", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    ]
    return [
        {"name": name, "type": kind, "jsonPath": path} | ({"priority": low} if low else {})
        for name, kind, path, low in shown
    ]


def _schema() -> Schema:
    return {
        "description": "A Flower federation: where its hub runs, which sites take part, who may use it.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": LONGEST_NAME}},
            },
            "spec": _spec(),
            "status": status_schema(),
        },
        "x-kubernetes-validations": RULES["Federation"],
    }


def _spec() -> Schema:
    form = FederationSpec.model_json_schema(by_alias=True)
    definitions = form.pop("$defs") | {"FederationSpec": form}
    _name_the_targets(definitions)
    definitions["Group"]["properties"].pop("sites")
    for name, rules in RULES.items():
        if name in definitions:
            definitions[name]["x-kubernetes-validations"] = rules
    for (name, field), settings in SETTINGS.items():
        _settle(definitions[name]["properties"][field], settings)
    form["required"] = ["superlink", "groups"]
    return structural(form, definitions)


def _settle(field: Schema, settings: Mapping[str, Any]) -> None:
    """Set a field's settings; those for `items` go to each item, None takes one away."""
    for key, value in settings.items():
        if key == "items":
            _settle(field["items"], value)
        elif value is None:
            field.pop(key)
        else:
            field[key] = value


def _name_the_targets(definitions: dict[str, Schema]) -> None:
    """Give `on` its second name, and no default: the API server would set it beside the other."""
    for name, words in _TOLD.items():
        fields = definitions[name]["properties"]
        for key, told in (("on", words), (BARE_ON, "What kubectl makes of a bare `on`.")):
            fields[key] = {"type": "string", "description": told, "maxLength": 16}
