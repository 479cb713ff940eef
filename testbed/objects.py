"""What a hub and a spoke must hold before OCM starts. Pure: objects out."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from testbed.commands import AGENT_NAMESPACE, BOOTSTRAP_USER, HUB_NAMESPACE

Object = dict[str, Any]
CLUSTER_GROUP = "cluster.open-cluster-management.io"
WORK_GROUP = "work.open-cluster-management.io"
HUB_NAMESPACES = (HUB_NAMESPACE, "open-cluster-management")
SPOKE_NAMESPACES = (AGENT_NAMESPACE, "open-cluster-management-agent-addon")
_HUB_DEFINITIONS = (
    "cluster/v1/*.yaml",
    "cluster/v1beta1/*.yaml",
    "cluster/v1beta2/*.yaml",
    "cluster/v1alpha1/0000_05*.yaml",
    "work/v1/0000_00*.yaml",
    "work/v1alpha1/*.yaml",
    "addon/v1beta1/*.yaml",
    "addon/v1alpha1/0000_03*.yaml",
)
_SPOKE_DEFINITIONS = ("cluster/v1alpha1/0000_02*.yaml", "work/v1/0000_01*.yaml")
_CONVERTED = ("clustermanagementaddons", "managedclusteraddons")


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def hub_definitions(folder: Path, webhook: str, authority: bytes) -> Iterable[Object]:
    """Give the hub's definitions; add-on kinds are converted by the webhook, as in production."""
    for definition in _read(folder, _HUB_DEFINITIONS):
        if definition["spec"]["names"]["plural"] in _CONVERTED:
            definition["spec"]["conversion"] = {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": client_config(webhook, "/convert", authority),
                    "conversionReviewVersions": ["v1", "v1beta1"],
                },
            }
        yield definition


def spoke_definitions(folder: Path) -> Iterable[Object]:
    return _read(folder, _SPOKE_DEFINITIONS)


def _read(folder: Path, patterns: Iterable[str]) -> Iterable[Object]:
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            yield yaml.safe_load(path.read_text())


def client_config(webhook: str, path: str, authority: bytes) -> Object:
    return {"url": f"{webhook}{path}", "caBundle": base64.b64encode(authority).decode()}


def bootstrap() -> list[Object]:
    """Give the rights of a cluster that asks to join."""
    role = "system:open-cluster-management:bootstrap"
    looks = ["get", "list", "watch"]
    rules = [
        _rule("", "configmaps", ["get"]),
        _rule("certificates.k8s.io", "certificatesigningrequests", ["create", *looks]),
        _rule(CLUSTER_GROUP, "managedclusters", ["create", *looks]),
        _rule(CLUSTER_GROUP, "managedclustersets/join", ["create"]),
    ]
    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "apiGroup": rbac, "name": BOOTSTRAP_USER}
    head: Object = {"apiVersion": f"{rbac}/v1", "metadata": {"name": role}}
    return [
        {**head, "kind": "ClusterRole", "rules": rules},
        {
            **head,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [subject],
        },
    ]


def _rule(group: str, resource: str, verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": verbs}


def admission(webhook: str, authority: bytes) -> list[Object]:
    """Give OCM's own admission webhooks, by address instead of by Service."""
    cluster_path = "cluster-open-cluster-management-io"

    def hook(kind: str, name: str, path: str, rule: tuple[str, str, str]) -> Object:
        group, version, resource = rule
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": name,
                    "failurePolicy": "Fail",
                    "clientConfig": client_config(webhook, path, authority),
                    "rules": [
                        {
                            "operations": ["CREATE", "UPDATE"],
                            "apiGroups": [group],
                            "apiVersions": [version],
                            "resources": [resource],
                        }
                    ],
                    "admissionReviewVersions": ["v1beta1", "v1"],
                    "sideEffects": "None",
                    "timeoutSeconds": 10,
                }
            ],
        }

    clusters = (CLUSTER_GROUP, "*", "managedclusters")
    return [
        hook(
            "MutatingWebhookConfiguration",
            f"managedclustermutators.admission.{CLUSTER_GROUP}",
            f"/mutate-{cluster_path}-v1-managedcluster",
            clusters,
        ),
        hook(
            "ValidatingWebhookConfiguration",
            f"managedclustervalidators.admission.{CLUSTER_GROUP}",
            f"/validate-{cluster_path}-v1-managedcluster",
            clusters,
        ),
        hook(
            "ValidatingWebhookConfiguration",
            f"managedclustersetbindingvalidators.admission.{CLUSTER_GROUP}",
            f"/validate-{cluster_path}-v1beta2-managedclustersetbinding",
            (CLUSTER_GROUP, "v1beta2", "managedclustersetbindings"),
        ),
        hook(
            "ValidatingWebhookConfiguration",
            f"manifestworkvalidators.admission.{WORK_GROUP}",
            "/validate-work-open-cluster-management-io-v1-manifestwork",
            (WORK_GROUP, "*", "manifestworks"),
        ),
    ]


def claim(name: str, value: str) -> Object:
    return {
        "apiVersion": f"{CLUSTER_GROUP}/v1alpha1",
        "kind": "ClusterClaim",
        "metadata": {"name": name},
        "spec": {"value": value},
    }
