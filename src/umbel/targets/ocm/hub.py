"""The hub of a federation as Kubernetes objects. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from umbel.agent.pod import places
from umbel.model.federation import Federation, TaskResources
from umbel.model.kubernetes import HubOnKubernetes
from umbel.model.unit import HUB
from umbel.targets.ocm.names import FINGERPRINT, Names
from umbel.targets.ocm.pods import (
    Object,
    container,
    empty,
    mount,
    pod_security,
    pull,
    tolerations,
)

GRACE_S = 30
POLL_S = 300.0  # executors are poked; this catches what was offered again
CONFIG_HASH = "umbel.dev/config"


@dataclass(frozen=True, slots=True)
class Hub:
    """What the hub's objects are made of."""

    federation: Federation
    names: Names
    image: str  # where the document names none
    bundle: str  # PEM: what everybody trusts
    fingerprints: str = ""  # of the hub's units
    claim: Object | None = None  # of its volume, as it was made: a StatefulSet never changes it

    @property
    def settings(self) -> HubOnKubernetes:
        """How the hub runs on Kubernetes."""
        return self.federation.spec.superlink.kubernetes or HubOnKubernetes()


def objects(hub: Hub) -> list[Object]:
    """List everything of the hub but its secrets, in the order of creation."""
    found = [_account(hub), _config(hub), _trust(hub), _headless(hub), service(hub), _policy(hub)]
    return [*found, *_routes(hub), stateful_set(hub)]


def _meta(hub: Hub, name: str, **more: Any) -> Object:
    return hub.names.metadata(name, "hub", namespace=hub.names.namespace, **more)


def _account(hub: Hub) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _meta(hub, hub.names.hub),
        "automountServiceAccountToken": False,
    }


def exec_config(federation: Federation, site: str, address: str, per: TaskResources) -> Object:
    """Say what an executor is told."""
    runtime = federation.spec.runtime
    return {
        "site": site,
        "address": address,
        "warm": runtime.exec == "warm",
        "poll_s": POLL_S,
        "task_timeout_s": runtime.task_timeout_seconds,
        "per_task": per.model_dump(),
        "has": {"cpu": 0, "gpu": 0},
        "wheels": runtime.wheels,
    }


def _configs(hub: Hub) -> dict[str, str]:
    runtime = f"127.0.0.1:{places.RUNTIME_PORT}"
    per_task = hub.federation.spec.runtime.server_resources
    served = exec_config(hub.federation, HUB, runtime, per_task)
    return {
        "desk.json": json.dumps({"federation": hub.names.name}),
        "exec.json": json.dumps(served, sort_keys=True),
    }


def _config(hub: Hub) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(hub, hub.names.hub),
        "data": _configs(hub),
    }


def _trust(hub: Hub) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(hub, f"{hub.names.name}-trust"),
        "data": {"ca.crt": hub.bundle},
    }


def _selector(hub: Hub) -> dict[str, str]:
    labels = hub.names.labels("hub")
    return {key: labels[key] for key in ("umbel.dev/federation", "umbel.dev/part")}


def _headless(hub: Hub) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(hub, hub.names.hub),
        "spec": {
            "clusterIP": "None",
            "selector": _selector(hub),
            "publishNotReadyAddresses": True,
            "ports": [_port("fleet", places.FLEET_PORT), _port("control", places.CONTROL_PORT)],
        },
    }


def _port(name: str, port: int, node_port: int | None = None) -> Object:
    found: Object = {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
    return found | ({"nodePort": node_port} if node_port else {})


def service(hub: Hub) -> Object:
    """Describe what sites and people dial."""
    declared = hub.settings.service
    kind = declared.type if declared.type in ("NodePort", "LoadBalancer") else "ClusterIP"
    open_ports = declared.type in ("NodePort", "LoadBalancer")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(hub, hub.names.service, annotations=declared.annotations),
        "spec": {
            "type": kind,
            "selector": _selector(hub),
            "ports": [
                _port("fleet", places.FLEET_PORT, declared.fleet_node_port if open_ports else None),
                _port(
                    "control",
                    places.CONTROL_PORT,
                    declared.control_node_port if open_ports else None,
                ),
            ],
        },
    }


def _policy(hub: Hub) -> Object:
    """Close everything but the gate's two doors; the kubelet's probes come from the node."""
    doors = (places.FLEET_PORT, places.CONTROL_PORT)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _meta(hub, hub.names.hub),
        "spec": {
            "podSelector": {"matchLabels": _selector(hub)},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in doors]}],
        },
    }


def _routes(hub: Hub) -> list[Object]:
    declared = hub.settings.service
    hosts = (("fleet", declared.fleet_host), ("control", declared.control_host))
    if declared.type == "Gateway":
        return [_tls_route(hub, door, host or "") for door, host in hosts]
    if declared.type == "Ingress":
        return [_ingress(hub, hosts)]
    return []


def _tls_route(hub: Hub, door: str, host: str) -> Object:
    declared = hub.settings.service
    parent: Object = {"name": declared.gateway}
    if declared.gateway_namespace:
        parent["namespace"] = declared.gateway_namespace
    port = places.FLEET_PORT if door == "fleet" else places.CONTROL_PORT
    name = f"{hub.names.name}-{door}"
    return {
        "apiVersion": "gateway.networking.k8s.io/v1alpha2",
        "kind": "TLSRoute",
        "metadata": _meta(hub, name, annotations=declared.annotations),
        "spec": {
            "parentRefs": [parent],
            "hostnames": [host],
            "rules": [{"backendRefs": [{"name": hub.names.service, "port": port}]}],
        },
    }


def _ingress(hub: Hub, hosts: Sequence[tuple[str, str | None]]) -> Object:
    declared = hub.settings.service
    passed = {
        "nginx.ingress.kubernetes.io/ssl-passthrough": "true",
        "haproxy.org/ssl-passthrough": "true",
        **declared.annotations,
    }
    rules = [
        {
            "host": host,
            "http": {
                "paths": [
                    {
                        "path": "/",
                        "pathType": "Prefix",
                        "backend": {"service": {"name": hub.names.service, "port": {"name": door}}},
                    }
                ]
            },
        }
        for door, host in hosts
    ]
    spec: Object = {"tls": [{"hosts": [host for _, host in hosts]}], "rules": rules}
    if declared.class_name:
        spec["ingressClassName"] = declared.class_name
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": _meta(hub, hub.names.name, annotations=passed),
        "spec": spec,
    }


def stateful_set(hub: Hub) -> Object:
    """Describe the pod: one SuperLink is Flower's own limit, so there is one."""
    storage = hub.settings.storage
    claim: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.size}},
    }
    if storage.class_name:
        claim["storageClassName"] = storage.class_name
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _meta(hub, hub.names.hub, annotations={FINGERPRINT: hub.fingerprints}),
        "spec": {
            "replicas": 1,
            "serviceName": hub.names.hub,
            "selector": {"matchLabels": _selector(hub)},
            "updateStrategy": {"type": "OnDelete"},  # we choose the moment: between rounds
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain",
                "whenScaled": "Retain",
            },
            "template": _pod(hub),
            "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": hub.claim or claim}],
        },
    }


def _pod(hub: Hub) -> Object:
    image, policy, secrets = pull(hub.federation, hub.image)
    settings = hub.settings
    configured = hashlib.sha256(json.dumps(_configs(hub), sort_keys=True).encode()).hexdigest()
    return {
        "metadata": {
            "labels": hub.names.labels("hub"),
            "annotations": {
                CONFIG_HASH: configured[:16],
                "kubectl.kubernetes.io/default-container": "superlink",
            },
        },
        "spec": {
            "serviceAccountName": hub.names.hub,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_S,
            "securityContext": pod_security(),
            "imagePullSecrets": secrets,
            "nodeSelector": settings.node_selector,
            "tolerations": tolerations(settings.tolerations),
            "containers": _containers(hub, image, policy),
            "volumes": _volumes(hub),
        },
    }


def _containers(hub: Hub, image: str, policy: str) -> list[Object]:
    state, trust = places.STATE, mount("trust", places.TRUST, read_only=True)
    config = mount("config", places.CONFIG, read_only=True)
    link, tasks, desk = (
        mount("link", places.LINK),
        mount("tasks", places.TASKS),
        mount("desk", places.DESK),
    )
    gate = mount("gate", places.GATE, read_only=True)
    kept = {
        name: mount("state", f"{state}/{name}", sub=name)
        for name in ("superlink", "gate", "desk", "runs", "environments")
    }
    doors = (("fleet", places.FLEET_PORT), ("control", places.CONTROL_PORT))
    known = mount("state", f"{state}/desk", sub="desk", read_only=True)
    read_runs = mount("state", f"{state}/runs", sub="runs", read_only=True)
    owner = mount("owner", places.OWNER, read_only=True)
    return [
        container("superlink", image, policy, [trust, link, tasks, kept["superlink"], known]),
        container(
            "gate", image, policy, [link, tasks, desk, gate, kept["gate"], known], ports=doors
        ),
        container("desk", image, policy, [trust, config, desk, owner, kept["desk"], read_runs]),
        container(
            "exec",
            image,
            policy,
            [config, tasks, kept["runs"], kept["environments"]],
            resources=hub.settings.resources.model_dump(),
        ),
    ]


def _volumes(hub: Hub) -> list[Object]:
    mode = 0o440
    return [
        {"name": "trust", "configMap": {"name": f"{hub.names.name}-trust"}},
        {"name": "config", "configMap": {"name": hub.names.hub}},
        {"name": "gate", "secret": {"secretName": hub.names.gate_secret, "defaultMode": mode}},
        {
            "name": "owner",
            "secret": {
                "secretName": hub.names.user_secret("owner"),
                "defaultMode": mode,
                "items": [{"key": "token", "path": "token"}],
            },
        },
        *(empty(name, memory=True) for name in ("link", "tasks", "desk")),
        *(empty(f"tmp-{role}") for role in ("superlink", "gate", "desk", "exec")),
    ]
