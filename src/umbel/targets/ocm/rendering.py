"""A federation with all that it needs on a bare hub, as plain manifests in the order of their use. Pure.

Nothing is looked up, and the same document always gives the same text: it is made to lie in Git.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from umbel.errors import RequestError
from umbel.model.federation import API_VERSION, Federation, Target
from umbel.targets.ocm.choosing import binding, cluster_sets
from umbel.targets.ocm.crd import KIND, federation_crd
from umbel.targets.ocm.crd_rules import LONGEST_NAME
from umbel.targets.ocm.install import OperatorSettings, operator_objects
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.pods import Object

MARK = "# Written by umbel render; write it again rather than change it.\n"
NAMESPACE = "default"  # where kubectl puts what names none

_ARGO = "argocd.argoproj.io"
_FLUX_PRUNE = "kustomize.toolkit.fluxcd.io/prune"
_WAVES = {"Namespace": -3, "CustomResourceDefinition": -3, "ManagedClusterSetBinding": -1, KIND: 0}
_OPERATOR_WAVE = -2


class NotForAHub(RequestError):
    """The document has parts that cannot run on a hub of Open Cluster Management."""

    code = "U360"

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}, and only what runs on a hub can be rendered", hint=hint)


class NameTooLong(RequestError):
    """The federation's name is too long for a custom resource."""

    code = "U361"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the federation's name {name!r} has more than {LONGEST_NAME} characters",
            hint="names of add-ons and objects are made of it: choose a shorter one",
        )


def rendered(
    federation: Federation, settings: OperatorSettings, *, operator: bool = True
) -> dict[str, list[Object]]:
    """Give the manifests by the file that they belong in, both in the order of their use."""
    check(federation)
    files = {"crd": [federation_crd()], "operator": operator_objects(settings)} if operator else {}
    files[f"federation-{federation.name}"] = federation_objects(federation)
    return {name: [_in_order(obj) for obj in objects] for name, objects in files.items()}


def check(federation: Federation) -> None:
    """Refuse what a hub cannot host, as its API server would."""
    if federation.spec.superlink.on is not Target.OCM:
        raise NotForAHub(
            f"the SuperLink is on {federation.spec.superlink.on}",
            "write spec.superlink: {on: ocm}, or bring it up from here with: umbel up",
        )
    for group in federation.spec.groups:
        if group.on is not Target.OCM:
            hint = "write on: ocm for every group"
            raise NotForAHub(f"group {group.name!r} is on {group.on}", hint)
    if len(federation.name) > LONGEST_NAME:
        raise NameTooLong(federation.name)


def federation_objects(federation: Federation) -> list[Object]:
    """Give the federation with its namespace and the cluster sets that it may use there."""
    names = Names(federation.metadata.namespace or NAMESPACE, federation.name)
    sets = dict.fromkeys(name for group in federation.spec.groups for name in cluster_sets(group))
    space: list[Object] = [] if names.namespace == NAMESPACE else [_namespace(names.namespace)]
    return [*space, *(binding(names, name) for name in sets), resource(federation)]


def resource(federation: Federation) -> Object:
    """Write the document as a custom resource; what is as by default is left out."""
    body = federation.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    body["metadata"].setdefault("namespace", NAMESPACE)
    return {"apiVersion": API_VERSION, "kind": KIND, **body}


def as_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Write manifests as YAML that version 1.1, which kubectl reads, cannot misread."""
    texts = (yaml.safe_dump(obj, sort_keys=False, width=2**20) for obj in objects)
    return MARK + "---\n".join(texts)


def kustomization(files: Iterable[str]) -> Object:
    """List the files for kustomize."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{name}.yaml" for name in files],
    }


def _namespace(name: str) -> Object:
    labels = {f"pod-security.kubernetes.io/{m}": "restricted" for m in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _in_order(obj: Object) -> Object:
    """Say when Argo CD applies it; what takes others with it when it goes is never pruned."""
    kind = obj["kind"]
    notes = {f"{_ARGO}/sync-wave": str(_WAVES.get(kind, _OPERATOR_WAVE))}
    if kind in ("Namespace", "CustomResourceDefinition"):
        notes |= {f"{_ARGO}/sync-options": "Prune=false", _FLUX_PRUNE: "disabled"}
    if kind == KIND:  # the first time, its definition comes in the same sync
        notes |= {f"{_ARGO}/sync-options": "SkipDryRunOnMissingResource=true"}
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": metadata.get("annotations", {}) | notes}}
