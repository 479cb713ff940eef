"""Environments of apps as objects: an executor on every cluster that runs a SuperNode. Pure.

A ManifestWorkReplicaSet sends the executor to the clusters that have the federation's add-on and
match the environment: one for all whose values are the same (variants.py). What is a site's own
(certificate and secret) is made at the site, and mounted there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from umbel.agent.pod import places, sharing
from umbel.model.federation import Federation, Group
from umbel.model.kubernetes import POD_DATA, Environment, SitesOnKubernetes
from umbel.model.placement import Predicate, SiteSelector
from umbel.targets.ocm import choosing
from umbel.targets.ocm.hub import CONFIG_HASH, exec_config
from umbel.targets.ocm.names import PART, Names
from umbel.targets.ocm.pods import (
    Object,
    container,
    empty,
    mirrored,
    mount,
    pod_security,
    proxied,
    tolerations,
)
from umbel.targets.ocm.variants import Variant, variants

WORK_SETS = "work.open-cluster-management.io/v1alpha1"
ADDON_LABEL = "feature.open-cluster-management.io/addon-"  # OCM puts it on clusters that have one
ENVIRONMENT = "umbel.dev/environment"  # label: its name
GRACE_MARGIN_S = 30
_SHORT = 16

# Without a condition Progressing a progressive rollout ends with its first batch.
PROGRESSING = (
    "!has(object.status.observedGeneration)"
    " || object.status.observedGeneration < object.metadata.generation"
    " || !has(object.status.updatedReplicas)"
    " || object.status.updatedReplicas < object.spec.replicas"
    " || !has(object.status.readyReplicas)"
    " || object.status.readyReplicas < object.spec.replicas"
)
DEGRADED = (
    "has(object.status.conditions) && object.status.conditions.exists("
    "c, c.type == 'Progressing' && c.status == 'False')"
)


@dataclass(frozen=True, slots=True)
class Sent:
    """An environment, and what it is sent with."""

    federation: Federation
    names: Names
    environment: Environment
    image: str  # where the environment names none
    variant: Variant  # the clusters it goes to, and their values

    @property
    def settings(self) -> SitesOnKubernetes:
        """How its pods run."""
        return self.variant.values.settings

    @property
    def name(self) -> str:
        """Of its objects on the hub: works of it have that name too, among everybody's."""
        key = f"/{self.variant.key}" if self.variant.key else ""
        about = f"{self.names.owner}/{self.environment.name}{key}"
        mark = hashlib.sha256(about.encode()).hexdigest()[:8]
        return f"umbel-{self.environment.name[:_SHORT]}-{mark}"  # OCM makes labels of it

    @property
    def pod(self) -> str:
        """Of its objects on the clusters."""
        return f"umbel-exec-{self.environment.name}"

    def meta(self, name: str, namespace: str) -> dict[str, object]:
        """Give the metadata of an object of it."""
        labels = {ENVIRONMENT: self.environment.name}
        return self.names.metadata(name, "environment", namespace=namespace, labels=labels)


def declared(federation: Federation) -> dict[str, str]:
    """Say which apps have environments, by the environment's name: what SuperNodes are told."""
    return {one.name: one.app for one in federation.spec.runtime.environments}


def placement(sent: Sent) -> Object:
    """Choose the clusters that have the add-on, in whatever state, and match the environment.

    An add-on that is not available for a while must not take the executor away from its task.
    """
    shares = sent.variant.shares
    sets = dict.fromkeys(s for share in shares for s in choosing.cluster_sets(share.group))
    chosen = [
        _both(sent, group, own, share.expressions)
        for share in shares
        for group in share.group.placement.predicates or (Predicate(),)
        for own in sent.environment.predicates or (Predicate(),)
    ]
    tolerated = [t for share in shares for t in choosing.tolerated(share.group)]
    return {
        "apiVersion": choosing.API,
        "kind": "Placement",
        "metadata": sent.meta(sent.name, sent.names.namespace),
        "spec": {
            "clusterSets": list(sets),
            "predicates": _single({"requiredClusterSelector": one} for one in chosen),
            "tolerations": _single(tolerated),
        },
    }


def _both(sent: Sent, group: Predicate, own: Predicate, named: Sequence[str]) -> Object:
    """Write a selector for clusters that satisfy both, and have the add-on."""
    selectors: tuple[SiteSelector, ...] = (
        group.required_cluster_selector,
        own.required_cluster_selector,
    )
    addon = f"{ADDON_LABEL}{sent.names.addon}"
    labels: list[Object] = [{"key": addon, "operator": "Exists"}]
    claims: list[Object] = []
    expressions = list(named)
    for selector in selectors:
        said = selector.model_dump(mode="json", by_alias=True)
        wanted = said["labelSelector"]
        labels += [
            {"key": key, "operator": "In", "values": [value]}
            for key, value in wanted["matchLabels"].items()
        ]
        labels += map(_requirement, wanted["matchExpressions"])
        claims += map(_requirement, said["claimSelector"]["matchExpressions"])
        expressions += said["celSelector"]["celExpressions"]
    found: Object = {"labelSelector": {"matchExpressions": _single(labels)}}
    if claims:
        found["claimSelector"] = {"matchExpressions": _single(claims)}
    if expressions:
        found["celSelector"] = {"celExpressions": list(dict.fromkeys(expressions))}
    return found


def _requirement(said: Object) -> Object:
    return {key: value for key, value in said.items() if value}


def _single(found: Iterable[Any]) -> list[Any]:
    """Leave out what is said twice."""
    return list({json.dumps(one, sort_keys=True): one for one in found}.values())


def work_set(sent: Sent) -> Object:
    """Send the executor, batch by batch, each batch well before the next."""
    rollout = sent.settings.rollout
    progressive = {
        "maxConcurrency": rollout.max_concurrent,
        "maxFailures": rollout.max_failures,
        "progressDeadline": f"{rollout.deadline_seconds}s",
        "minSuccessTime": f"{rollout.soak_seconds}s",
    }
    strategy = {"type": "Progressive", "progressive": progressive}
    return {
        "apiVersion": WORK_SETS,
        "kind": "ManifestWorkReplicaSet",
        "metadata": sent.meta(sent.name, sent.names.namespace),
        "spec": {
            "placementRefs": [{"name": sent.name, "rolloutStrategy": strategy}],
            "manifestWorkTemplate": {
                "workload": {"manifests": manifests(sent)},
                "manifestConfigs": [_judged(sent)],
            },
        },
    }


def _judged(sent: Sent) -> Object:
    return {
        "resourceIdentifier": {
            "group": "apps",
            "resource": "deployments",
            "name": sent.pod,
            "namespace": sent.names.addon,
        },
        "feedbackRules": [{"type": "WellKnownStatus"}],
        "conditionRules": [
            _rule("Progressing", PROGRESSING, "its executor is not ready yet"),
            _rule("Degraded", DEGRADED, "its executor does not become ready"),
        ],
    }


def _rule(condition: str, expression: str, message: str) -> Object:
    return {
        "condition": condition,
        "type": "CEL",
        "celExpressions": [expression],
        "message": message,
    }


def manifests(sent: Sent) -> list[Object]:
    """List what a cluster gets; its namespace is the add-on's, and goes with the add-on."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _at_site(sent)}
    return [{**config, "data": {"app.json": _told(sent)}}, _deployment(sent)]


def _at_site(sent: Sent) -> dict[str, object]:
    return sent.meta(sent.pod, sent.names.addon)


def _told(sent: Sent) -> str:
    address = f"{sharing.SERVICE}.{sent.names.addon}.svc:{places.NODE_RUNTIME_PORT}"
    per_task = sent.federation.spec.runtime.resources
    told = exec_config(sent.federation, sent.environment.name, address, per_task)
    told["environment"] = sent.environment.name
    if sent.environment.bundle is not None:
        told |= {"wheels": places.BUNDLE, "keys": list(sent.environment.bundle.keys)}
    return json.dumps(told, sort_keys=True)


def _deployment(sent: Sent) -> Object:
    labels = {**sent.names.labels("environment"), ENVIRONMENT: sent.environment.name}
    selector = {key: labels[key] for key in ("umbel.dev/federation", PART, ENVIRONMENT)}
    mark = hashlib.sha256(_told(sent).encode()).hexdigest()[:16]
    limits = sent.environment.resources.limits
    devices = any("/" in name for name in limits)  # such as a GPU: there is none for a second pod
    surge = (
        {"maxSurge": 0, "maxUnavailable": 1} if devices else {"maxSurge": 1, "maxUnavailable": 0}
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _at_site(sent),
        "spec": {
            "replicas": 1,
            "progressDeadlineSeconds": sent.settings.rollout.deadline_seconds,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": surge},
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": labels, "annotations": {CONFIG_HASH: mark}},
                "spec": _pod(sent),
            },
        },
    }


def _pod(sent: Sent) -> Object:
    image, settings = sent.environment.image, sent.settings
    given = sent.environment.resources.model_dump()
    data = sent.variant.values.data
    mounts = [
        mount("config", places.CONFIG, read_only=True),
        mount("runtime", places.RUNTIME, read_only=True),
        *([mount("data", POD_DATA, read_only=True)] if data else []),
        *([mount("bundle", places.BUNDLE, read_only=True)] if sent.environment.bundle else []),
    ]
    name = mirrored(image.name or sent.image, settings.mirrors)
    said = proxied(settings.proxy, f"{sharing.SERVICE}.{sent.names.addon}.svc")
    env = {"env": [{"name": key, "value": value} for key, value in said.items()]} if said else {}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": settings.drain_seconds + GRACE_MARGIN_S,
        "securityContext": pod_security(),
        "imagePullSecrets": [{"name": name} for name in image.pull_secrets],
        "nodeSelector": settings.node_selector,
        "tolerations": tolerations(settings.tolerations),
        "containers": [
            {**container("app", name, image.pull_policy, mounts, resources=given), **env}
        ],
        "volumes": _volumes(sent, data),
    }


def _volumes(sent: Sent, data: str) -> list[Object]:
    own = {"key": sharing.secret_key(sent.environment.name), "path": "exec.secret"}
    trust = {"key": sharing.TRUST, "path": sharing.TRUST}
    secret = {"secretName": sharing.OBJECT, "defaultMode": 0o440, "items": [trust, own]}
    folder = {"name": "data", "hostPath": {"path": data, "type": "Directory"}}
    return [
        {"name": "config", "configMap": {"name": sent.pod}},
        {"name": "runtime", "secret": secret},  # the kubelet waits until the site's agent made it
        empty("tmp-app"),
        *([folder] if data else []),
        *_bundle(sent),
    ]


def _bundle(sent: Sent) -> list[Object]:
    bundle = sent.environment.bundle
    if bundle is None:
        return []
    name = mirrored(bundle.image, sent.settings.mirrors)
    source = {"reference": name, "pullPolicy": bundle.pull_policy}
    return [{"name": "bundle", "image": source}]


def at_sites(federation: Federation, names: Names) -> list[Object]:
    """List what a site has more, where executors are pods of their own: a way to its SuperNode."""
    if not federation.spec.runtime.environments:
        return []
    selector = {"umbel.dev/federation": names.addon, PART: "site"}
    door = {"port": places.NODE_RUNTIME_PORT, "protocol": "TCP"}
    callers = {"matchLabels": {"umbel.dev/federation": names.addon, PART: "environment"}}
    meta = names.metadata(sharing.SERVICE, "site", namespace=names.addon)
    ports = [{"name": "runtime", **door, "targetPort": places.NODE_RUNTIME_PORT}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            # An executor comes before the SuperNode is connected, and waits.
            "spec": {"selector": selector, "ports": ports, "publishNotReadyAddresses": True},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": names.metadata(sharing.OBJECT, "site", namespace=names.addon),
            "spec": {
                "podSelector": {"matchLabels": selector},
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": callers}], "ports": [door]}],
            },
        },
    ]


def sent_by(
    federation: Federation, names: Names, image: str, homes: Mapping[str, str]
) -> Sequence[Sent]:
    """List the federation's environments with what they are sent with, and whereto."""
    return [
        Sent(federation, names, one, image, variant)
        for one in federation.spec.runtime.environments
        for variant in variants(_groups(federation, one), homes)
    ]


def _groups(federation: Federation, environment: Environment) -> list[Group]:
    named = environment.groups
    return [group for group in federation.spec.groups if not named or group.name in named]
