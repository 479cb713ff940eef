"""What installs the operator on a hub, as Kubernetes objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from umbel import __version__
from umbel.targets.ocm import rbac
from umbel.targets.ocm.pods import Object, container_security, empty, mount, pod_security

OPERATOR = "umbel-operator"
ADMIN = "umbel-federation-admin"
VIEWER = "umbel-federation-viewer"
PROBES_PORT = 8080
METRICS_PORT = 8081
IMAGE = f"umbel:{__version__}"
GRACE_S = 30

_RBAC = "rbac.authorization.k8s.io"


def _resources() -> Mapping[str, Mapping[str, str]]:
    return {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """How the operator is installed."""

    namespace: str = "umbel-system"
    create_namespace: bool = True
    image: str = IMAGE
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    replicas: int = 1  # one works, the others wait for its lease
    watch_namespaces: tuple[str, ...] = ()  # none: all, and then Secrets of all
    bind_cluster_sets: tuple[str, ...] = ()  # the operator binds these; others, whoever may
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=_resources)
    log_level: str = "info"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    people: bool = True  # roles for people, added to the cluster's admin, edit and view


def operator_objects(settings: OperatorSettings) -> list[Object]:
    """List everything that the operator needs, in the order of creation. The CRD is not in it."""
    namespace = [_namespace(settings)] if settings.create_namespace else []
    roles = [*_roles(settings), *_bindings(settings), *(_people() if settings.people else [])]
    spread = [_budget(settings)] if settings.replicas > 1 else []
    account = _account(settings)
    running = [_service(settings), _policy(settings), _deployment(settings), *spread]
    return [*namespace, account, *roles, *running]


def _labels() -> dict[str, str]:
    return {**_selector(), "app.kubernetes.io/part-of": "umbel"} | {
        "app.kubernetes.io/version": __version__
    }


def _selector() -> dict[str, str]:
    return {"app.kubernetes.io/name": OPERATOR}


def _object(version: str, kind: str, name: str, namespace: str = "", **body: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {**metadata, "labels": _labels()},
        **body,
    }


def _namespace(settings: OperatorSettings) -> Object:
    made = _object("v1", "Namespace", settings.namespace)
    for mode in ("enforce", "audit", "warn"):
        made["metadata"]["labels"][f"pod-security.kubernetes.io/{mode}"] = "restricted"
    return made


def _account(settings: OperatorSettings) -> Object:
    off = {"automountServiceAccountToken": False}  # the pod itself asks for it
    return _object("v1", "ServiceAccount", OPERATOR, settings.namespace, **off)


def _roles(settings: OperatorSettings) -> list[Object]:
    version = f"{_RBAC}/v1"
    hub = rbac.on_the_hub(settings.bind_cluster_sets)
    federations = rbac.in_federations(bind=bool(settings.bind_cluster_sets))
    return [
        _object(version, "ClusterRole", OPERATOR, rules=hub),
        _object(version, "ClusterRole", f"{OPERATOR}-federations", rules=federations),
        _object(version, "Role", OPERATOR, settings.namespace, rules=rbac.at_home()),
    ]


def _bindings(settings: OperatorSettings) -> list[Object]:
    """Bind the roles; that for federations everywhere, or only where federations are looked for."""
    federations = f"{OPERATOR}-federations"
    everywhere = [] if settings.watch_namespaces else [(federations, "")]
    somewhere = [(federations, namespace) for namespace in settings.watch_namespaces]
    return [
        _binding(settings, "ClusterRole", OPERATOR, ""),
        *(_binding(settings, "ClusterRole", *where) for where in (*everywhere, *somewhere)),
        _binding(settings, "Role", OPERATOR, settings.namespace),
    ]


def _binding(settings: OperatorSettings, kind: str, role: str, namespace: str) -> Object:
    account = {"kind": "ServiceAccount", "name": OPERATOR, "namespace": settings.namespace}
    return _object(
        f"{_RBAC}/v1",
        "RoleBinding" if namespace else "ClusterRoleBinding",
        role,
        namespace,
        roleRef={"apiGroup": _RBAC, "kind": kind, "name": role},
        subjects=[account],
    )


def _people() -> list[Object]:
    """Give people's roles: whoever administers or edits a namespace may declare federations in it."""
    found = []
    for name, rules, joins in (
        (ADMIN, rbac.of_admins(), ("admin", "edit")),
        (VIEWER, rbac.of_viewers(), ("view",)),
    ):
        role = _object(f"{_RBAC}/v1", "ClusterRole", name, rules=rules)
        role["metadata"]["labels"] |= {f"{_RBAC}/aggregate-to-{other}": "true" for other in joins}
        found.append(role)
    return found


def _service(settings: OperatorSettings) -> Object:
    port = {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics", "protocol": "TCP"}
    spec = {"type": "ClusterIP", "selector": _selector(), "ports": [port]}
    return _object("v1", "Service", f"{OPERATOR}-metrics", settings.namespace, spec=spec)


def _policy(settings: OperatorSettings) -> Object:
    """Close everything but probes and metrics. Ways out stay open: API servers are anywhere."""
    doors = [{"port": port, "protocol": "TCP"} for port in ("probes", "metrics")]
    spec = {
        "podSelector": {"matchLabels": _selector()},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": doors}],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", OPERATOR, settings.namespace, spec=spec)


def _budget(settings: OperatorSettings) -> Object:
    spec = {"minAvailable": 1, "selector": {"matchLabels": _selector()}}
    return _object("policy/v1", "PodDisruptionBudget", OPERATOR, settings.namespace, spec=spec)


def _deployment(settings: OperatorSettings) -> Object:
    spec = {
        "replicas": settings.replicas,
        "selector": {"matchLabels": _selector()},
        "template": {"metadata": {"labels": _labels()}, "spec": _pod(settings)},
    }
    return _object("apps/v1", "Deployment", OPERATOR, settings.namespace, spec=spec)


def _pod(settings: OperatorSettings) -> Object:
    optional = {
        "imagePullSecrets": [{"name": name} for name in settings.pull_secrets],
        "nodeSelector": dict(settings.node_selector),
        "tolerations": [dict(toleration) for toleration in settings.tolerations],
        "topologySpreadConstraints": _spread(settings),
    }
    return {
        "serviceAccountName": OPERATOR,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": pod_security(),
        "containers": [_container(settings)],
        "volumes": [empty("tmp")],
        **{key: value for key, value in optional.items() if value},
    }


def _spread(settings: OperatorSettings) -> list[Object]:
    if settings.replicas == 1:
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": _selector()},
        }
    ]


def _container(settings: OperatorSettings) -> Object:
    ports = (("probes", PROBES_PORT), ("metrics", METRICS_PORT))
    return {
        "name": "operator",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["python", "-m", "umbel.operator"],
        "env": _environment(settings),
        "ports": [{"name": n, "containerPort": p, "protocol": "TCP"} for n, p in ports],
        "resources": {key: dict(value) for key, value in settings.resources.items()},
        "securityContext": container_security(),
        "livenessProbe": _probe("/healthz", 10),
        "readinessProbe": _probe("/readyz", 5),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount("tmp", "/tmp")],  # noqa: S108
    }


def _environment(settings: OperatorSettings) -> list[Object]:
    """Say what the operator is told: where it is, where it looks, and the image of its pods."""
    place = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    told = {
        "UMBEL_IMAGE": settings.image,
        "UMBEL_LOG_LEVEL": settings.log_level,
        "UMBEL_WATCH_NAMESPACES": ",".join(settings.watch_namespaces),
        "UMBEL_BIND_CLUSTER_SETS": ",".join(settings.bind_cluster_sets),
    }
    named = [{"name": name, "value": value} for name, value in told.items()]
    return [{"name": "UMBEL_NAMESPACE", "valueFrom": place}, *named]


def _probe(path: str, period_s: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "probes"},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": 3,
    }
