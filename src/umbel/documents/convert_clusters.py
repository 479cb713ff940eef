"""AddOnDeploymentConfigs of single clusters, as what is different on those clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from umbel.documents.problems import shown

KIND = "AddOnDeploymentConfig"
_KNOWN = {
    "PARTITION_ID": "every site gets an id of its own and keeps it",
    "NUM_PARTITIONS": "follows the number of sites",
    "SUPERLINK_ADDRESS": "sites learn the address from the federation",
    "SUPERLINK_PORT": "sites learn the port from the federation",
    "IMAGE": "all sites run Umbel's image; spec.runtime.environments is for apps",
    "NODE_TYPE": "nothing ever read it",
}
_COPIED = ("proxyConfig", "nodePlacement", "registries", "resourceRequirements")


@dataclass(slots=True)
class Clusters:
    """What was different on single clusters, by their names."""

    configs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, manifest: Mapping[str, Any]) -> None:
        """Take an AddOnDeploymentConfig, or a list of them as kubectl gives it."""
        for one in _listed(manifest):
            namespace = _at(one, "metadata").get("namespace")
            if one.get("kind") != KIND or not isinstance(namespace, str):
                kind = shown(str(one.get("kind", "something without a kind")))
                self.notes.append(f"{kind}: no {KIND} with a namespace; left out")
                continue
            if namespace in self.configs:
                self.notes.append(f"{shown(namespace)}: a second {KIND} of the cluster; left out")
                continue
            self.configs[namespace] = _at(one, "spec")

    def different(self, shared: str) -> dict[str, Any]:
        """Give what differs, without the configs in the namespace that all clusters share."""
        made = {
            cluster: self._values(cluster, spec)
            for cluster, spec in self.configs.items()
            if cluster != shared
        }
        return {cluster: values for cluster, values in made.items() if values}

    def _values(self, cluster: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        self._variables(cluster, spec.get("customizedVariables"))
        for key in spec:
            if key not in (*_COPIED, "customizedVariables", "agentInstallNamespace"):
                self.notes.append(f"{shown(cluster)}: {shown(str(key))} is left out")
        placed = _at(spec, "nodePlacement")
        proxy = {k: v for k, v in _at(spec, "proxyConfig").items() if k != "caBundle"}
        if "caBundle" in _at(spec, "proxyConfig"):
            self.notes.append(f"{shown(cluster)}: proxyConfig.caBundle has no counterpart")
        found = {
            "nodeSelector": placed.get("nodeSelector"),
            "tolerations": [_toleration(t) for t in placed.get("tolerations") or ()],
            "proxy": proxy,
            "mirrors": spec.get("registries"),
            "resources": self._resources(cluster, spec.get("resourceRequirements")),
        }
        return {key: value for key, value in found.items() if value}

    def _variables(self, cluster: str, variables: Any) -> None:
        for variable in variables if isinstance(variables, list) else ():
            name = str(_plain(variable).get("name"))
            words = _KNOWN.get(name, "no template of the chart reads it; left out")
            self.notes.append(f"{shown(cluster)}: {shown(name)}: {words}")

    def _resources(self, cluster: str, requirements: Any) -> dict[str, Any]:
        """Keep the first that is meant for the SuperNode's pod; there the apps run now."""
        for one in requirements if isinstance(requirements, list) else ():
            identity = str(_plain(one).get("containerID", ""))
            workload = (*identity.split(":"), "", "")[1]
            if workload in ("*", "flower-supernode"):
                named = _at(_plain(one), "resources")
                return {
                    kind: {key: str(value) for key, value in _at(named, kind).items()}
                    for kind in ("requests", "limits")
                    if _at(named, kind)
                }
            self.notes.append(f"{shown(cluster)}: resources of {shown(identity)} are left out")
        return {}


def _listed(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    items = manifest.get("items")
    if not isinstance(items, list):
        yield manifest
        return
    yield from (_plain(item) for item in items)


def _plain(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _at(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _plain(value.get(key))


def _toleration(value: Any) -> dict[str, Any]:
    known = ("key", "operator", "value", "effect")
    return {key: str(v) for key, v in _plain(value).items() if key in known}
