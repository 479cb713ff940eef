"""What all our pods have in common: closed down, watched, and small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from umbel.agent.pod.places import HEALTH_PORTS, USER
from umbel.model.federation import Federation
from umbel.model.kubernetes import Mirror, PodToleration, Proxy

Object = dict[str, Any]
LOOPBACK = ("localhost", "127.0.0.1")  # containers of a pod speak to each other by no proxy
REQUESTS: Mapping[str, Mapping[str, str]] = {
    "superlink": {"cpu": "50m", "memory": "192Mi"},
    "gate": {"cpu": "20m", "memory": "64Mi"},
    "desk": {"cpu": "10m", "memory": "128Mi"},
    "exec": {"cpu": "50m", "memory": "256Mi"},
    "node": {"cpu": "50m", "memory": "192Mi"},
    "app": {"cpu": "50m", "memory": "256Mi"},
}


def pod_security() -> Object:
    """Give the pod's side of the level `restricted`."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Object:
    """Give the container's side of the level `restricted`, and a root that cannot be written."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def container(
    role: str,
    image: str,
    pull_policy: str,
    mounts: Sequence[Object],
    *,
    ports: Sequence[tuple[str, int]] = (),
    resources: Object | None = None,
) -> Object:
    """Describe the container of a role; the kubelet asks its first process how it does."""
    health = HEALTH_PORTS[role]
    wanted = dict(resources or {})
    wanted["requests"] = {**REQUESTS[role], **wanted.get("requests", {})}
    return {
        "name": role,
        "image": image,
        "imagePullPolicy": pull_policy,
        "command": ["python", "-m", "umbel.agent.pod.warden", role],
        "ports": [
            *({"name": name, "containerPort": port} for name, port in ports),
            {"name": f"{role}-health"[:15], "containerPort": health},
        ],
        "resources": wanted,
        "securityContext": container_security(),
        "startupProbe": _probe("/readyz" if role != "node" else "/healthz", health, 1, 180),
        "livenessProbe": _probe("/healthz", health, 10, 3),
        "readinessProbe": _probe("/readyz", health, 2, 2),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts, {"name": f"tmp-{role}", "mountPath": "/tmp"}],  # noqa: S108
    }


def _probe(path: str, port: int, period_s: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def mount(volume: str, path: str, *, sub: str = "", read_only: bool = False) -> Object:
    """Mount a volume, or a folder of it."""
    found: Object = {"name": volume, "mountPath": path}
    if sub:
        found["subPath"] = sub
    if read_only:
        found["readOnly"] = True
    return found


def empty(name: str, *, memory: bool = False) -> Object:
    """Describe a volume that is empty at first and gone with the pod."""
    return {"name": name, "emptyDir": {"medium": "Memory"} if memory else {}}


def tolerations(wanted: Sequence[PodToleration]) -> list[Object]:
    """Write tolerations as Kubernetes reads them."""
    return [{k: v for k, v in t.model_dump().items() if v} for t in wanted]


def pull(federation: Federation, default: str) -> tuple[str, str, list[Object]]:
    """Give the image, when it is pulled, and with which secrets."""
    image = federation.spec.runtime.image
    secrets = [{"name": name} for name in image.pull_secrets]
    return image.name or default, image.pull_policy, secrets


def mirrored(image: str, mirrors: Sequence[Mirror]) -> str:
    """Say where an image is pulled from: as OCM does it for add-ons, the last that fits."""
    found = image
    for one in mirrors:
        source, mirror = one.source.removesuffix("/"), one.mirror.removesuffix("/")
        if image.startswith(source):
            found = f"{mirror}{image.removeprefix(source)}"
    return found


def proxied(proxy: Proxy, *direct: str) -> dict[str, str]:
    """Give the variables that name the way out, as OCM does it for add-ons; `direct` need none."""
    if not proxy.http_proxy and not proxy.https_proxy:
        return {}
    around = ",".join(part for part in (proxy.no_proxy, *LOOPBACK, *direct) if part)
    said = {"HTTP_PROXY": proxy.http_proxy, "HTTPS_PROXY": proxy.https_proxy, "NO_PROXY": around}
    both = {**said, **{key.lower(): value for key, value in said.items()}}
    return {key: value for key, value in both.items() if value}
