"""The sites of a federation as add-on objects of Open Cluster Management. Pure.

A version of what a group's sites run is an AddOnTemplate that never changes: its name has its
content's hash. Which version a cluster runs, and with which values of its own, is said by its
ManagedClusterAddOn. So a rollout, a halt and a way back are each one reference.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from umbel.agent.pod import places, sharing
from umbel.errors import RequestError
from umbel.model.federation import Federation, Group
from umbel.model.kubernetes import POD_DATA, ClusterValues, SitesOnKubernetes
from umbel.model.unit import Unit
from umbel.targets.ocm import environments
from umbel.targets.ocm.hub import exec_config
from umbel.targets.ocm.names import FINGERPRINT, PART, SITE_GROUP, Names
from umbel.targets.ocm.pods import (
    LOOPBACK,
    Object,
    container,
    empty,
    mount,
    pod_security,
    pull,
    tolerations,
)

ADDON_API = "addon.open-cluster-management.io/v1alpha1"
ADDON_GROUP = "addon.open-cluster-management.io"
NODE = "umbel-node"  # Deployment, and the account of the site's agent
SITE = "umbel-site"  # what the site's agent writes: a Secret and a ConfigMap
CONFIG = "umbel-config"
TRUST = "umbel-trust"
PIECES = 4  # variables that carry a site's settings: each holds 1,024 characters
PIECE = 1024
FEEDBACK = ("publicKey", "fingerprint", "state", "message", "version", "release")
DRAIN_MARGIN_S = 30


@dataclass(frozen=True, slots=True)
class Version:
    """What the sites of a group run."""

    federation: Federation
    names: Names
    group: Group
    image: str  # where the document names none
    bundle: str  # PEM: what sites trust

    @property
    def settings(self) -> SitesOnKubernetes:
        """How the group's sites run on Kubernetes."""
        return self.group.kubernetes or SitesOnKubernetes()

    @property
    def has_data(self) -> bool:
        """Whether a folder of the node is mounted."""
        clusters = self.settings.clusters.values()
        return bool(self.group.data.host_path) or any(c.host_path for c in clusters)


def template(version: Version) -> Object:
    """Give the AddOnTemplate of this version, named by its content."""
    spec = {
        "addonName": version.names.addon,
        "agentSpec": {
            "workload": {"manifests": manifests(version)},
            "manifestConfigs": [_reported(version.names.addon)],
        },
    }
    mark = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:10]
    name = version.names.template(version.group.name, mark)
    labels = {SITE_GROUP: version.group.name}
    return {
        "apiVersion": ADDON_API,
        "kind": "AddOnTemplate",
        "metadata": version.names.metadata(name, "site", labels=labels),
        "spec": spec,
    }


def _reported(namespace: str) -> Object:
    """Have the cluster's agent report what the site's agent writes, as soon as it does."""
    return {
        "resourceIdentifier": {
            "group": "",
            "resource": "configmaps",
            "name": SITE,
            "namespace": namespace,
        },
        "updateStrategy": {"type": "CreateOnly"},
        "feedbackScrapeType": "Watch",
        "feedbackRules": [
            {
                "type": "JSONPaths",
                "jsonPaths": [{"name": name, "path": f".data.{name}"} for name in FEEDBACK],
            }
        ],
    }


def manifests(version: Version) -> list[Object]:
    """List what a site's cluster gets."""
    meta = _Meta(version.names)
    return [
        _namespace(version, meta),
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": meta(NODE),
            "automountServiceAccountToken": False,
        },
        *_permissions(version, meta),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(SITE), "data": {}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta(TRUST),
            "data": {"ca.crt": version.bundle},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta(CONFIG),
            "data": {"exec.json": _exec(version), "environments.json": _apps(version)},
            "binaryData": {"node.json": "".join(f"{{{{NODE_{n}}}}}" for n in range(PIECES))},
        },
        _policy(meta),
        *environments.at_sites(version.federation, version.names),
        _deployment(version, meta),
    ]


@dataclass(frozen=True, slots=True)
class _Meta:
    names: Names

    def __call__(self, name: str) -> dict[str, object]:
        return self.names.metadata(name, "site", namespace=self.names.addon)


def _namespace(version: Version, meta: _Meta) -> Object:
    # A folder of the node cannot be mounted at a level below "privileged"; our pods still keep
    # every other rule of "restricted".
    level = "privileged" if version.has_data else "restricted"
    labels = {
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/warn": "restricted",
    }
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta.names.metadata(meta.names.addon, "site", labels=labels),
    }


def _permissions(version: Version, meta: _Meta) -> list[Object]:
    """Let the site's agent have its own Secrets and its own ConfigMap, and nothing else."""
    verbs = ["get", "create", "patch"]
    shared = [sharing.OBJECT] if version.federation.spec.runtime.environments else []
    own = {"apiGroups": [""], "resourceNames": [SITE], "verbs": verbs}
    secrets = {**own, "resourceNames": [SITE, *shared], "resources": ["secrets"]}
    subject = {"kind": "ServiceAccount", "name": NODE, "namespace": meta.names.addon}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NODE}
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": meta(NODE),
            "rules": [secrets, {**own, "resources": ["configmaps"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": meta(NODE),
            "subjects": [subject],
            "roleRef": role,
        },
    ]


def _exec(version: Version) -> str:
    address = f"127.0.0.1:{places.NODE_RUNTIME_PORT}"
    per_task = version.federation.spec.runtime.resources
    told = exec_config(version.federation, "{{CLUSTER_NAME}}", address, per_task)
    return json.dumps(told, sort_keys=True)


def _apps(version: Version) -> str:
    return json.dumps(environments.declared(version.federation), sort_keys=True)


def _policy(meta: _Meta) -> Object:
    """Close the site's pods: sites only dial out."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta(NODE),
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []},
    }


def _deployment(version: Version, meta: _Meta) -> Object:
    image, policy, secrets = pull(version.federation, version.image)
    labels = meta.names.labels("site")
    selector = {key: labels[key] for key in ("umbel.dev/federation", PART)}
    spec = {
        "serviceAccountName": NODE,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": version.settings.drain_seconds + DRAIN_MARGIN_S,
        "securityContext": pod_security(),
        "imagePullSecrets": secrets,
        "tolerations": tolerations(version.settings.tolerations),
        "containers": _containers(version, image, policy),
        "volumes": _volumes(version),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(NODE),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # two SuperNodes with one key shut each other out
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"kubectl.kubernetes.io/default-container": "node"},
                },
                "spec": spec,
            },
        },
    }


def _containers(version: Version, image: str, policy: str) -> list[Object]:
    config = mount("config", places.CONFIG, read_only=True)
    trust, tasks = mount("trust", places.TRUST, read_only=True), mount("tasks", places.TASKS)
    account = mount("account", places.ACCOUNT, read_only=True)
    keys, runs = mount("keys", places.KEYS), mount("runs", f"{places.STATE}/runs")
    built = mount("environments", f"{places.STATE}/environments")
    data = [mount("data", POD_DATA, read_only=True)] if version.has_data else []
    return [
        container("node", image, policy, [config, trust, tasks, account, keys]),
        container(
            "exec",
            image,
            policy,
            [config, tasks, runs, built, *data],
            resources=version.settings.resources.model_dump(),
        ),
    ]


def _volumes(version: Version) -> list[Object]:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    ca = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    where = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    namespace = {"downwardAPI": {"items": [{"path": "namespace", **where}]}}
    data = {"name": "data", "hostPath": {"path": "{{DATA_PATH}}", "type": "Directory"}}
    return [
        {"name": "config", "configMap": {"name": CONFIG}},
        {"name": "trust", "configMap": {"name": TRUST}},
        {"name": "account", "projected": {"sources": [token, ca, namespace]}},
        *(empty(name, memory=True) for name in ("tasks", "keys")),
        *(empty(name) for name in ("runs", "environments", "tmp-node", "tmp-exec")),
        *([data] if version.has_data else []),
    ]


def addon(names: Names, default_template: str, notes: Mapping[str, str]) -> Object:
    """Declare the add-on; which clusters have it is our decision, taken from Placements."""
    configs = [
        {
            "group": ADDON_GROUP,
            "resource": "addontemplates",
            "defaultConfig": {"name": default_template},
        },
        {"group": ADDON_GROUP, "resource": "addondeploymentconfigs"},
    ]
    return {
        "apiVersion": ADDON_API,
        "kind": "ClusterManagementAddOn",
        "metadata": names.metadata(names.addon, "site", annotations=notes),
        "spec": {
            "addOnMeta": {
                "displayName": f"Flower federation {names.owner}",
                "description": "SuperNodes of a Flower federation, kept by Umbel.",
            },
            "supportedConfigs": configs,
            "installStrategy": {"type": "Manual"},
        },
    }


@dataclass(frozen=True, slots=True)
class SiteValues:
    """What one cluster is told."""

    names: Names
    cluster: str
    group: str
    node: Mapping[str, Any]  # fleet, nodeConfig
    settings: SitesOnKubernetes
    data_path: str = ""
    template: str = ""
    own: ClusterValues = field(default_factory=ClusterValues)

    @property
    def release(self) -> str:
        """Name the version and the values together: the site says which one it runs."""
        about = [dict(self.node), self.data_path, self.template, self.own.model_dump(mode="json")]
        about.append(self.settings.model_dump(mode="json", exclude={"clusters", "rollout"}))
        text = json.dumps(about, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def node_settings(unit: Unit) -> dict[str, Any]:
    """Give what a site's agent is told, from its SuperNode's unit."""
    return {"fleet": unit.settings["fleet"], "nodeConfig": unit.settings["node_config"]}


class SettingsTooLong(RequestError):
    """A site's settings do not fit into the variables of its add-on."""

    code = "U374"

    def __init__(self, cluster: str, size: int) -> None:
        super().__init__(
            f"the settings of {cluster} take {size} characters; add-ons carry {PIECES * PIECE}",
            hint="keep data.nodeConfig short: put long values into a file of the site's data",
        )


def config(values: SiteValues) -> Object:
    """Give a cluster's AddOnDeploymentConfig: everything, for nothing is merged."""
    told = {**values.node, "release": values.release}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    coded = base64.b64encode(text.encode()).decode()
    if len(coded) > PIECES * PIECE:
        raise SettingsTooLong(values.cluster, len(coded))
    pieces = [coded[n * PIECE : (n + 1) * PIECE] for n in range(PIECES)]
    variables = {f"NODE_{n}": piece for n, piece in enumerate(pieces)}
    variables["DATA_PATH"] = values.data_path or "/var/empty"
    spec: Object = {
        "agentInstallNamespace": "",  # anything else renames our namespace
        "customizedVariables": [{"name": k, "value": v} for k, v in variables.items()],
    }
    return {
        "apiVersion": ADDON_API,
        "kind": "AddOnDeploymentConfig",
        "metadata": _of_cluster(values, config_name(values)),
        "spec": spec | _placed(values) | _network(values) | _resources(values),
    }


def config_name(values: SiteValues) -> str:
    """Name a cluster's values; like versions, they never change."""
    return f"{values.names.addon}-{values.release}"


def _of_cluster(values: SiteValues, name: str, **more: Any) -> dict[str, object]:
    labels = {SITE_GROUP: values.group}
    return values.names.metadata(name, "site", namespace=values.cluster, labels=labels, **more)


def _placed(values: SiteValues) -> Object:
    selector = values.own.node_selector
    selector = values.settings.node_selector if selector is None else selector
    wanted = values.own.tolerations
    wanted = values.settings.tolerations if wanted is None else wanted
    if not selector and not wanted:
        return {}
    return {"nodePlacement": {"nodeSelector": selector, "tolerations": tolerations(wanted)}}


def _network(values: SiteValues) -> Object:
    proxy = values.own.proxy or values.settings.proxy
    mirrors = values.own.mirrors
    mirrors = values.settings.mirrors if mirrors is None else mirrors
    found: Object = {}
    said = {
        "httpProxy": proxy.http_proxy,
        "httpsProxy": proxy.https_proxy,
        "noProxy": ",".join(part for part in (proxy.no_proxy, *LOOPBACK) if part),
    }
    if proxy.http_proxy or proxy.https_proxy:
        found["proxyConfig"] = {key: value for key, value in said.items() if value}
    if mirrors:
        found["registries"] = [mirror.model_dump() for mirror in mirrors]
    return found


def _resources(values: SiteValues) -> Object:
    wanted = values.own.resources
    if wanted is None:
        return {}
    resources = {key: value for key, value in wanted.model_dump().items() if value}
    return {
        "resourceRequirements": [
            {"containerID": f"deployments:{NODE}:exec", "resources": resources}
        ]
    }


@dataclass(frozen=True, slots=True)
class Given:
    """What a cluster was given, and since when."""

    template: str
    config: str
    release: str
    fingerprints: str
    at: str  # ISO 8601, UTC

    def annotations(self, prefix: str = "") -> dict[str, str]:
        """Write it down beside the reference."""
        return {
            f"{_ABOUT}{prefix}template": self.template,
            f"{_ABOUT}{prefix}config": self.config,
            f"{_ABOUT}{prefix}release": self.release,
            f"{_ABOUT}{prefix}given-at": self.at,
            (f"{_ABOUT}{prefix}fingerprint" if prefix else FINGERPRINT): self.fingerprints,
        }


_ABOUT = "umbel.dev/"
BEFORE = "former-"


def given(installed: Object, prefix: str = "") -> Given | None:
    """Read what a cluster was given; with BEFORE, what it had before that."""
    notes = installed["metadata"].get("annotations") or {}
    if f"{_ABOUT}{prefix}template" not in notes:
        return None
    fingerprints = notes.get(f"{_ABOUT}{prefix}fingerprint" if prefix else FINGERPRINT, "")
    return Given(
        template=notes.get(f"{_ABOUT}{prefix}template", ""),
        config=notes.get(f"{_ABOUT}{prefix}config", ""),
        release=notes.get(f"{_ABOUT}{prefix}release", ""),
        fingerprints=fingerprints,
        at=notes.get(f"{_ABOUT}{prefix}given-at", ""),
    )


def installed(names: Names, cluster: str, group: str, now: Given, before: Given | None) -> Object:
    """Give a cluster's ManagedClusterAddOn: this version, with these values."""
    configs = [
        {"group": ADDON_GROUP, "resource": "addontemplates", "name": now.template},
        {
            "group": ADDON_GROUP,
            "resource": "addondeploymentconfigs",
            "namespace": cluster,
            "name": now.config,
        },
    ]
    notes = {**now.annotations(), **(before.annotations(BEFORE) if before else {})}
    meta = names.metadata(
        names.addon, "site", namespace=cluster, labels={SITE_GROUP: group}, annotations=notes
    )
    return {
        "apiVersion": ADDON_API,
        "kind": "ManagedClusterAddOn",
        "metadata": meta,
        "spec": {"configs": configs},
    }
