"""From the values of upstream's flower-addon chart to a document that does the same, secured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from umbel.documents import reading
from umbel.documents.composing import FileEmpty, NotAMapping, composed
from umbel.documents.convert_clusters import Clusters
from umbel.documents.loading import load
from umbel.documents.nodes import plain
from umbel.documents.problems import shown
from umbel.documents.words import slug
from umbel.errors import RequestError
from umbel.model.federation import Federation

Values: TypeAlias = Mapping[str, Any]

NAME_LENGTH = 40
PLACEHOLDER = "<HUB_NODE_IP>"

# What the chart has where a values file says nothing. None: whatever a file says is looked at.
_CHART: Values = {
    "superlink": {
        "enabled": True,
        "namespace": "flower-system",
        "image": {"repository": "flwr/superlink", "tag": None, "pullPolicy": "IfNotPresent"},
        "resources": None,
        "nodePort": {"exec": 30091, "fleet": 30092, "control": 30093},
        "args": ["--insecure", "--isolation=process"],
    },
    "tls": {
        "enabled": False,
        "ca": {"secretName": "flower-tls-ca"},
        "serverCert": {"secretName": "flower-superlink-tls"},
    },
    "supernode": {
        "image": {"repository": "flwr/supernode", "tag": None, "pullPolicy": "IfNotPresent"},
        "resources": None,
        "numPartitions": "2",
        "partitionId": None,
    },
    "addon": {
        "name": "flower-addon",
        "namespace": "open-cluster-management",
        "displayName": None,
        "description": None,
        "installStrategy": "Manual",
    },
    "deploymentConfig": {
        "enabled": True,
        "name": "flower-addon-config",
        "superlinkAddress": PLACEHOLDER,
        "superlinkPort": "30092",
    },
    "placement": {
        kind: {
            "enabled": False,
            "name": f"flower-addon-{kind}-placement",
            "clusterSet": cluster_set,
            "config": {"name": f"flower-addon-{kind}-config", "nodeType": None},
        }
        for kind, cluster_set in (("gpu", "default"), ("all", "global"))
    },
    "nameOverride": None,
    "fullnameOverride": None,
}
_OPEN = ("superlink.resources", "supernode.resources")  # mappings whose keys are anybody's


class ValuesUnusable(RequestError):
    """A file is not what the flower-addon chart takes."""

    code = "U363"

    def __init__(self, source: str, fact: str) -> None:
        super().__init__(
            f"{shown(source)}: {fact}",
            hint="give the values file of the flower-addon chart:"
            " helm get values flower-addon -o yaml > values.yaml",
        )


@dataclass(frozen=True, slots=True)
class Converted:
    """The document, and what a person must know about it."""

    federation: Federation
    notes: tuple[str, ...]


def from_flower_addon(values: Path, configs: Iterable[Path] = ()) -> Converted:
    """Read the chart's values, and AddOnDeploymentConfigs of single clusters."""
    clusters = Clusters()
    for path in configs:
        clusters.add(_read(path))
    given = _read(values)
    source = str(values)
    if given and not set(given) & set(_CHART):
        raise ValuesUnusable(source, "none of its keys is one of the flower-addon chart")
    conversion = _Conversion(source)
    filled = conversion.fill(given, _CHART)
    document = conversion.document(filled, clusters)
    notes = (*conversion.notes, *clusters.notes)
    return Converted(load(json.dumps(document), source="the converted document"), notes)


def _read(path: Path) -> Values:
    text = reading.decoded(reading.read(path), str(path))
    try:
        root, problems = composed(text)
    except FileEmpty:
        return {}
    except NotAMapping as error:
        raise ValuesUnusable(str(path), error.problems[0].fact) from error
    if problems:
        raise ValuesUnusable(str(path), f"line {problems[0].line}: {problems[0].fact}")
    found: Values = plain(root)
    return found


@dataclass(slots=True)
class _Conversion:
    """One conversion; notes are collected on the way."""

    source: str
    notes: list[str] = field(default_factory=list)

    def note(self, key: str, words: str) -> None:
        self.notes.append(f"{shown(key)}: {shown(words)}")

    def fill(self, given: Values, chart: Values, path: str = "") -> dict[str, Any]:
        """Put what a file says over what the chart has; note what the chart does not know."""
        filled: dict[str, Any] = dict(chart)
        for key, value in given.items():
            here = f"{path}.{key}".lstrip(".")
            known = chart.get(key)
            if key not in chart:
                self.note(here, "not a key of the chart; left out")
            elif isinstance(known, Mapping):
                filled[key] = self.fill(self._mapping(here, value), known, here)
            elif here in _OPEN:
                filled[key] = self._mapping(here, value)
            elif isinstance(known, list):
                filled[key] = self._texts(here, value)
            else:
                filled[key] = self._scalar(here, value, known)
        below = {k: v for k, v in chart.items() if isinstance(v, Mapping) and k not in given}
        return filled | {key: self.fill({}, value) for key, value in below.items()}

    def _mapping(self, key: str, value: Any) -> Values:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise ValuesUnusable(self.source, f"{key}: keys and values were expected here")
        return value

    def _texts(self, key: str, value: Any) -> list[str]:
        if not isinstance(value, list):
            raise ValuesUnusable(self.source, f"{key}: a list was expected here")
        return [str(item) for item in value]

    def _scalar(self, key: str, value: Any, known: Any) -> Any:
        if isinstance(value, Mapping | list):
            raise ValuesUnusable(self.source, f"{key}: a single value was expected here")
        if isinstance(known, bool) and not isinstance(value, bool):
            raise ValuesUnusable(self.source, f"{key}: true or false was expected here")
        return known if value is None else value

    def document(self, values: Values, clusters: Clusters) -> dict[str, Any]:
        """Write the document."""
        name = slug(str(values["addon"]["name"]))[:NAME_LENGTH].rstrip("-") or "flower"
        self._about(values)
        spec: dict[str, Any] = {
            "superlink": self._superlink(values),
            "groups": [self._group(values, name, clusters)],
        }
        if image := self._image(values):
            spec["runtime"] = {"image": image}
        return {
            "apiVersion": "umbel.dev/v1alpha1",
            "kind": "Federation",
            "metadata": {"name": name, "namespace": slug(str(values["superlink"]["namespace"]))},
            "spec": spec,
        }

    def _about(self, values: Values) -> None:
        """Note what is another way here for everybody."""
        if not values["superlink"]["enabled"]:
            self.note("superlink.enabled", "a federation always has its own SuperLink")
        if values["tls"]["enabled"]:
            secrets = (values["tls"][k]["secretName"] for k in ("ca", "serverCert"))
            words = f"certificates are made and renewed by Umbel; {' and '.join(secrets)} can go"
        else:
            words = "TLS is always on, and every SuperNode proves who it is with its own key"
        self.note("tls", words)
        self.note(
            "superlink.nodePort.control",
            "runs need a token now: umbel connect gives flwr what it needs",
        )
        for key in ("displayName", "description"):
            if values["addon"][key] is not None:
                self.note(f"addon.{key}", "no counterpart; left out")
        if not values["deploymentConfig"]["enabled"]:
            self.note("deploymentConfig.enabled", "no counterpart: sites are configured by Umbel")

    def _superlink(self, values: Values) -> dict[str, Any]:
        self._arguments(values["superlink"]["args"])
        ports = values["superlink"]["nodePort"]
        self.note(
            "superlink.nodePort",
            f"the cluster chooses the ports instead of {ports['fleet']} and {ports['control']}, so"
            " that both can run side by side; to fix them set"
            " spec.superlink.kubernetes.service.fleetNodePort and controlNodePort",
        )
        self.note("superlink.nodePort.exec", "ServerApps speak on loopback: nothing is published")
        made: dict[str, Any] = {"on": "ocm", "kubernetes": {"service": {"type": "NodePort"}}}
        if endpoint := self._endpoint(values):
            made["endpoint"] = endpoint
        if extended := self._extended("superlink", values):
            made["kubernetes"]["resources"] = extended
        return made

    def _endpoint(self, values: Values) -> str:
        config = values["deploymentConfig"]
        address, port = str(config["superlinkAddress"]), str(config["superlinkPort"])
        if address == PLACEHOLDER or not address:
            self.note(
                "deploymentConfig.superlinkAddress",
                "not in the file: set spec.superlink.endpoint to a name or address of the hub's"
                " nodes, or choose another kind of service",
            )
            return ""
        if port != str(values["superlink"]["nodePort"]["fleet"]):
            self.note(
                "deploymentConfig.superlinkPort",
                f"{port} is not the chart's own port: if a load balancer is in front, say so with"
                " spec.superlink.kubernetes.service.type",
            )
        return address

    def _arguments(self, arguments: list[str]) -> None:
        told = {
            "--insecure": "is gone: there is no such form",
            "--isolation": "is always process",
            "--database": "is not needed: state is kept on a volume",
            "--ssl": "is not needed: certificates are Umbel's",
            "--enable-supernode-auth": "is always on",
        }
        for argument in arguments:
            words = next((w for key, w in told.items() if argument.startswith(key)), "")
            self.note("superlink.args", f"{argument} {words or 'has no counterpart; left out'}")

    def _image(self, values: Values) -> dict[str, Any]:
        """Images are Umbel's: stock ones have neither gate nor executor."""
        for part in ("superlink", "supernode"):
            image = values[part]["image"]
            if image["repository"] != f"flwr/{part}" or image["tag"] is not None:
                tag = f":{image['tag']}" if image["tag"] is not None else ""
                self.note(
                    f"{part}.image",
                    f"{image['repository']}{tag} is not used: hub and sites run Umbel's image;"
                    " an image of your own, made from it, goes to spec.runtime.image.name",
                )
        policies = {values[part]["image"]["pullPolicy"] for part in ("superlink", "supernode")}
        if len(policies) > 1:
            self.note("supernode.image.pullPolicy", "hub and sites have one; the sites' is kept")
        policy = values["supernode"]["image"]["pullPolicy"]
        return {} if policy == "IfNotPresent" else {"pullPolicy": policy}

    def _extended(self, part: str, values: Values) -> dict[str, Any]:
        """Keep devices. CPU and memory were the server's own; the apps ran elsewhere, unlimited."""
        resources = values[part]["resources"]
        if not resources:
            return {}
        usual = {"cpu", "memory", "ephemeral-storage"}
        named = {
            kind: {k: str(v) for k, v in (resources.get(kind) or {}).items() if k not in usual}
            for kind in ("requests", "limits")
        }
        self.note(
            f"{part}.resources",
            "cpu and memory are left out: they were for Flower's own process; here resources are"
            " for the container that runs apps, which had none",
        )
        return {kind: wanted for kind, wanted in named.items() if wanted}

    def _group(self, values: Values, name: str, clusters: Clusters) -> dict[str, Any]:
        kubernetes: dict[str, Any] = {}
        if extended := self._extended("supernode", values):
            kubernetes["resources"] = extended
        if different := clusters.different(str(values["addon"]["namespace"])):
            kubernetes["clusters"] = different
        made: dict[str, Any] = {
            "name": "sites",
            "on": "ocm",
            "placement": self._placement(values, name),
        }
        if partitions := self._partitions(values["supernode"]):
            made["data"] = {"partitions": partitions}
        return made | ({"kubernetes": kubernetes} if kubernetes else {})

    def _partitions(self, supernode: Values) -> int:
        self.note(
            "supernode.partitionId",
            "every site gets an id of its own and keeps it (node_config: partition-id)",
        )
        wanted = str(supernode["numPartitions"])
        if not wanted.isdigit() or int(wanted) == 0:
            raise ValuesUnusable(self.source, "supernode.numPartitions: a number was expected here")
        if wanted == _CHART["supernode"]["numPartitions"]:
            self.note("supernode.numPartitions", "follows the number of sites; it was always 2")
            return 0
        return int(wanted)

    def _placement(self, values: Values, name: str) -> dict[str, Any]:
        declared = values["placement"]
        wanted = [kind for kind in ("gpu", "all") if declared[kind]["enabled"]]
        if values["addon"]["installStrategy"] != "Placements" or not wanted:
            return self._by_hand(values, name, wanted)
        kind = wanted[0]
        if len(wanted) > 1:
            self.note("placement.all", "the chart used placement.gpu alone; so does the document")
        if declared[kind]["config"]["nodeType"] is not None:
            self.note(f"placement.{kind}.config.nodeType", "nothing ever read it; left out")
        made: dict[str, Any] = {"clusterSets": [declared[kind]["clusterSet"]]}
        if kind == "gpu":
            self.note(
                "placement.gpu",
                "clusters are chosen by the label gpu=true as before; to give each site a GPU set"
                ' spec.groups[0].kubernetes.resources.limits: {nvidia.com/gpu: "1"}',
            )
            made["predicates"] = [_labelled("gpu")]
        self.note(
            f"placement.{kind}.clusterSet",
            f"bind it: clusteradm clusterset bind {declared[kind]['clusterSet']}"
            f" --namespace {values['superlink']['namespace']}",
        )
        return made

    def _by_hand(self, values: Values, name: str, wanted: list[str]) -> dict[str, Any]:
        """Clusters were named one by one: now by a label."""
        label = f"umbel.dev/{name}"
        self.note(
            "addon.installStrategy",
            "clusters were named by hand: label each of them instead:"
            f" kubectl label managedcluster NAME {label}=true",
        )
        if wanted:
            self.note(f"placement.{wanted[0]}", "was not used: installStrategy is not Placements")
        namespace = values["superlink"]["namespace"]
        self.note(
            "placement", f"bind the set: clusteradm clusterset bind global --namespace {namespace}"
        )
        return {"clusterSets": ["global"], "predicates": [_labelled(label)]}


def _labelled(label: str) -> dict[str, Any]:
    return {"requiredClusterSelector": {"labelSelector": {"matchLabels": {label: "true"}}}}
