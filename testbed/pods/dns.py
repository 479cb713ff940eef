"""Names of services inside a cluster: CoreDNS as pods, under the address that kubelets tell pods."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from testbed.api import Object
from testbed.pods.images import COREDNS

ADDRESS = "10.0.0.10"
DOMAIN = "cluster.local"
NAME = "coredns"
NAMESPACE = "kube-system"
PORT = 8053  # no right is needed for it
READY_PORT = 8181
LABELS = {"k8s-app": "kube-dns"}
MARK = "testbed.umbel.dev/settings"  # other settings: the server starts anew
# There is no way out of a cluster: whatever is not a name of it does not exist.
SETTINGS = f"""\
.:{PORT} {{
    errors
    ready :{READY_PORT}
    cache 1
    kubernetes {DOMAIN} in-addr.arpa {{
        pods insecure
        fallthrough in-addr.arpa
        ttl 1
    }}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def objects(hosts: Mapping[str, str] | None = None) -> list[Object]:
    """Give everything that makes names work in a cluster; hosts outside of it have these addresses."""
    said = settings(hosts or {})
    return [*_rights(), _settings(said), _deployment(said), _service()]


def settings(hosts: Mapping[str, str]) -> str:
    """Write the server's settings: a host has the one address, and none of the longer kind."""
    known = "".join(
        f'    template IN A {name} {{\n        answer "{name}. 1 IN A {address}"\n    }}\n'
        f"    template IN AAAA {name} {{\n        rcode NOERROR\n    }}\n"
        for name, address in sorted(hosts.items())
    )
    start, rest = SETTINGS.split("    template ANY", 1)
    return f"{start}{known}    template ANY{rest}"


def _head(version: str, kind: str, name: str, namespace: str = NAMESPACE) -> Object:
    meta: Object = {"name": name, "labels": LABELS}
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": meta}


def _rights() -> list[Object]:
    group, name = "rbac.authorization.k8s.io", f"system:{NAME}"
    looks = ["list", "watch"]
    plain = {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": looks}
    slices = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": looks}
    return [
        _head("v1", "ServiceAccount", NAME),
        {**_head(f"{group}/v1", "ClusterRole", name, ""), "rules": [plain, slices]},
        {
            **_head(f"{group}/v1", "ClusterRoleBinding", name, ""),
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        },
    ]


def _settings(said: str) -> Object:
    return {**_head("v1", "ConfigMap", NAME), "data": {"Corefile": said}}


def _deployment(said: str) -> Object:
    container = {
        "name": NAME,
        "image": COREDNS,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": READY_PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/coredns", "readOnly": True}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec = {
        "serviceAccountName": NAME,
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "settings", "configMap": {"name": NAME}}],
    }
    mark = {MARK: hashlib.sha256(said.encode()).hexdigest()[:12]}
    return {
        **_head("apps/v1", "Deployment", NAME),
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS, "annotations": mark}, "spec": spec},
        },
    }


def _service() -> Object:
    ports = [
        {"name": f"dns-{kind.lower()}", "port": 53, "targetPort": PORT, "protocol": kind}
        for kind in ("UDP", "TCP")
    ]
    spec = {"clusterIP": ADDRESS, "selector": LABELS, "ports": ports}
    return {**_head("v1", "Service", "kube-dns"), "spec": spec}
