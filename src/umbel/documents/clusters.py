"""What is read only on managed clusters, or only elsewhere: a key that would change nothing is refused.

`umbel.targets.ocm.crd_rules` has the same rules in CEL, for who never comes by here.
"""

from __future__ import annotations

from collections.abc import Iterator

from umbel.documents.nodes import Mapping, Node, Scalar, child, items_at, key_mark, text_at
from umbel.documents.problems import DocumentInvalid, Path, Problem, Text, quoted
from umbel.documents.words import either
from umbel.model.federation import Target
from umbel.model.kubernetes import USUAL_PORT


class KeyWithoutEffect(DocumentInvalid):
    """A key would change nothing where the federation is."""

    code = "U148"


class GroupElsewhere(DocumentInvalid):
    """The hub is on managed clusters and a group is not."""

    code = "U149"


_LINK: Path = ("spec", "superlink")
_SERVICE: Path = (*_LINK, "kubernetes", "service")
_UNUSED: tuple[tuple[Path, str, str], ...] = (
    (
        (*_LINK, "listen"),
        "the gate listens on every address of its pod",
        "remove it; spec.superlink.kubernetes.service says how the hub is reached",
    ),
    (
        (*_LINK, "ports"),
        "the gate has the ports 9092 and 9093 of its pod",
        "remove it; spec.superlink.kubernetes.service has fleetNodePort and controlNodePort",
    ),
    (
        ("spec", "security", "caKey"),
        "the CA's key is a Secret of the hub, and no file of yours is there",
        "remove it; the API server can encrypt Secrets at rest",
    ),
)
_CLUSTERS_ONLY: tuple[Path, ...] = (
    (*_LINK, "kubernetes"),
    ("spec", "runtime", "image"),
    ("spec", "runtime", "environments"),
)
_SPREAD = (
    "Open Cluster Management does nothing with it",
    "remove it; write a group for each region: docs/guides/ocm/placement-recipes.md",
)
# Which kinds of service read a key of spec.superlink.kubernetes.service.
READ_BY: dict[str, tuple[str, ...]] = {
    "fleetNodePort": ("NodePort", "LoadBalancer"),
    "controlNodePort": ("NodePort", "LoadBalancer"),
    "fleetHost": ("Gateway", "Ingress"),
    "controlHost": ("Gateway", "Ingress"),
    "port": ("Gateway", "Ingress"),
    "gateway": ("Gateway",),
    "gatewayNamespace": ("Gateway",),
    "className": ("Ingress",),
}


def keys_without_effect(root: Mapping, text: Text) -> Iterator[Problem]:
    """Find what would be read by nobody."""
    if not _on_clusters(root):
        yield from _without_clusters(root, text)
        return
    for path, why, hint in _UNUSED:
        if _is_said(child(root, *path)):
            yield _unused(root, text, path, f"on ocm: {why}", hint)
    for n, _ in enumerate(items_at(root, "spec", "groups")):
        path = ("spec", "groups", n, "placement", "spreadPolicy")
        if _is_said(child(root, *path)):
            yield _unused(root, text, path, f"on ocm: {_SPREAD[0]}", _SPREAD[1])
    yield from _of_another_service(root, text)


def _without_clusters(root: Mapping, text: Text) -> Iterator[Problem]:
    if text_at(root, *_LINK, "on") not in {None, Target.LOCAL}:
        return
    for path in _CLUSTERS_ONLY:
        if _is_said(child(root, *path)):
            hint = "remove it, or declare SuperLink and groups with on: ocm"
            yield _unused(root, text, path, "on local: only managed clusters read it", hint)


def _of_another_service(root: Mapping, text: Text) -> Iterator[Problem]:
    kind = text_at(root, *_SERVICE, "type") or "ClusterIP"
    for key, kinds in READ_BY.items():
        node = child(root, *_SERVICE, key)
        usual = key == "port" and isinstance(node, Scalar) and node.value == USUAL_PORT
        if _is_said(node) and kind not in kinds and not usual:
            hint = f"remove it, or choose the type {either(kinds)}"
            yield _unused(root, text, (*_SERVICE, key), f"with a service of type {kind}", hint)


def foreign_groups(root: Mapping, text: Text) -> Iterator[Problem]:
    """Find groups that the hub cannot have."""
    if not _on_clusters(root):
        return
    here: Path = ("spec", "groups")
    if child(root, *here) is None:
        fact = "without groups there are three sites on this machine, and the hub is on ocm"
        hint = "declare groups: [{name: NAME, on: ocm}]"
        yield text.problem(GroupElsewhere, fact, hint, at=key_mark(root, _LINK), path=_LINK)
    for n, group in enumerate(items_at(root, *here)):
        on = text_at(group, "on") or Target.LOCAL
        if isinstance(group, Mapping) and on in list(Target) and on != Target.OCM:
            name = text_at(group, "name") or str(n)
            fact = f"the group {quoted(name)} is on {on}, and the hub is on ocm"
            hint = "write on: ocm; sites of other targets need a federation of their own"
            path = (*here, n, "on") if child(group, "on") else (*here, n)
            yield text.problem(GroupElsewhere, fact, hint, at=key_mark(root, path), path=path)


def _on_clusters(root: Mapping) -> bool:
    return text_at(root, *_LINK, "on") == Target.OCM


def _is_said(node: Node | None) -> bool:
    return node is not None and not (isinstance(node, Scalar) and node.value is None)


def _unused(root: Mapping, text: Text, path: Path, why: str, hint: str) -> Problem:
    fact = f'"{path[-1]}" has no effect {why}'
    return text.problem(KeyWithoutEffect, fact, hint, at=key_mark(root, path), path=path)
