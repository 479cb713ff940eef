"""What the stories on Open Cluster Management are made of: federations, and people who use them."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from testbed.api import Api, Object
from testbed.pods import images, network
from testbed.pods.plan import SWITCH
from testbed.waiting import eventually

from umbel.targets.ocm.names import Names

APPS = Path(__file__).parents[2] / "apps"
RECIPES = Path(__file__).parents[3] / "docs" / "guides" / "ocm" / "placement-recipes.md"
KNOWN = APPS / "known"
VERSION = "umbel.dev/v1alpha1"
ADDON = "addon.open-cluster-management.io/v1alpha1"
CLUSTER = "cluster.open-cluster-management.io"
WORK = "work.open-cluster-management.io/v1"
SYSTEM = "umbel-system"
HUB_ADDRESS = "10.81.0.1"
PATIENCE_S = 150
ENDED = ("completed", "failed", "stopped")
PASSING = {"Event", "Lease", "EndpointSlice", "Endpoints"}  # they come and go by themselves
DRAIN = {"drainSeconds": 60}
NOWHERE = {"example.org/nowhere": "true"}  # a label that no node has
MIRRORED = "localhost/mirrored"
PROXY = "http://proxy.example.org:3128"
DIRECT = f"{HUB_ADDRESS},10.0.0.1"
TOLERATED = {"key": "example.org/reserved", "operator": "Exists", "effect": "NoSchedule"}


def everywhere(*, kubernetes: Any = None, **more: Any) -> Object:
    """Give a group; a site that ends is waited for a minute, not ten."""
    return {"name": "all", "on": "ocm", "kubernetes": {**DRAIN, **(kubernetes or {})}, **more}


def labelled(key: str, value: str = "yes", operator: str = "In") -> Object:
    """Give a placement of the clusters with this label (or, with NotIn, of all others)."""
    wanted = {"key": key, "operator": operator, "values": [value]}
    selector = {"labelSelector": {"matchExpressions": [wanted]}}
    return {"predicates": [{"requiredClusterSelector": selector}]}


def recipe(title: str) -> Object:
    """Give the YAML that the guide writes under this title, all of it as one."""
    section = RECIPES.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    found: Object = {}
    for block in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL):
        found |= yaml.safe_load(block)
    return found


def spec(*groups: Object, kubernetes: Object | None = None, **more: Any) -> Object:
    """Give a document's spec: a hub at a port of its node, its own image, these groups."""
    hub = {"service": {"type": "NodePort"}, "storage": {"size": "1Gi"}, **(kubernetes or {})}
    return {
        "superlink": {"on": "ocm", "endpoint": HUB_ADDRESS, "kubernetes": hub},
        "groups": list(groups or (everywhere(),)),
        "runtime": {"image": {"name": images.UMBEL, "pullPolicy": "Never"}},
        **more,
    }


def asleep(*groups: Object, **more: Any) -> Object:
    """Give the spec of a federation whose pods find no node: everything is made, nothing runs."""
    resting = [
        {**group, "kubernetes": {"nodeSelector": NOWHERE, **group.get("kubernetes", {})}}
        for group in groups or (everywhere(),)
    ]
    return spec(*resting, kubernetes={"nodeSelector": NOWHERE}, **more)


def siteless(**storage: str) -> Object:
    """Give the spec of a federation that has a hub with this volume, and no sites."""
    return spec(everywhere(placement=labelled("no-such")), kubernetes={"storage": storage})


def condition(seen: Object, kind: str) -> Object:
    """Give a condition of an object; an empty one if it has none."""
    found = seen.get("status", {}).get("conditions") or ()
    return next((dict(c) for c in found if c["type"] == kind), {})


def online(seen: Object) -> set[str]:
    """Name the sites that are online."""
    sites = seen.get("status", {}).get("sites") or ()
    return {site["name"] for site in sites if site["state"] == "online"}


@dataclass(frozen=True)
class Federation:
    """One federation on the hub."""

    hub: Api
    namespace: str
    name: str

    @property
    def names(self) -> Names:
        return Names(self.namespace, self.name)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return VERSION, "Federation", self.name, self.namespace

    def resource(self, wanted: Object) -> Object:
        meta = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": VERSION, "kind": "Federation", "metadata": meta, "spec": wanted}

    def seen(self) -> Object:
        found = self.hub.get(*self.key)
        assert found is not None
        return found

    def wait(self, holds: Callable[[Object], Any], seconds: float = PATIENCE_S) -> Object:
        """Wait until what the operator says of it is as wanted."""
        return self.hub.wait(self.key, holds, seconds)

    def until_ready(self, *sites: str) -> Object:
        """Wait until it takes runs, with exactly these sites."""

        def holds(seen: Object) -> bool:
            status = seen.get("status", {})
            known = status.get("observedGeneration") == seen["metadata"]["generation"]
            return known and status.get("phase") == "Ready" and online(seen) == set(sites)

        return self.wait(holds)

    def until_said(self, kind: str, reason: str, seconds: float = PATIENCE_S) -> Object:
        """Wait until a condition has this reason; give the condition."""
        seen = self.wait(lambda seen: condition(seen, kind).get("reason") == reason, seconds)
        return condition(seen, kind)

    def site(self, name: str) -> Object:
        """Give what its status says of a site; nothing if it has none of that name."""
        sites = self.seen().get("status", {}).get("sites") or ()
        return next((dict(site) for site in sites if site["name"] == name), {})

    def change(self, **fields: Any) -> Object:
        """Change some fields of its spec."""
        path = self.hub.path(VERSION, "Federation", self.namespace, self.name)
        return self.hub.patch(path, {"spec": fields})

    def delete(self) -> None:
        self.hub.delete(*self.key)

    def until_gone(self, seconds: float = PATIENCE_S) -> None:
        eventually(
            f"the end of {self.names.owner}",
            lambda: self.hub.get(*self.key) is None,
            seconds,
            lambda: json.dumps((self.hub.get(*self.key) or {}).get("status"))[:2000],
        )

    @property
    def hub_pod(self) -> str:
        return f"{self.names.hub}-0"

    def secret(self, name: str, namespace: str = "") -> dict[str, bytes]:
        found = self.hub.get("v1", "Secret", name, namespace or self.namespace)
        assert found is not None
        return {key: base64.b64decode(value) for key, value in found["data"].items()}


Declare = Callable[[str, str, Object], Federation]


def site_pod(spoke: Api, names: Names) -> Object | None:
    """Give the pod of the SuperNode on a cluster; nothing if there is none that stays."""
    found = [
        pod
        for pod in spoke.list("v1", "Pod", names.addon)
        if "deletionTimestamp" not in pod["metadata"]
    ]
    return found[0] if found else None


def label(hub: Api, cluster: str, **labels: str | None) -> None:
    """Label a managed cluster; None takes a label away."""
    path = hub.path(f"{CLUSTER}/v1", "ManagedCluster", "", cluster)
    hub.patch(path, {"metadata": {"labels": dict(labels)}})


def kinds_of(api: Api) -> list[str]:
    """Give where the API server serves lists that can be looked at, each kind once."""
    groups = [("/api/v1", "")]
    for group in api.request("GET", "/apis")["groups"]:
        groups += [(f"/apis/{v['groupVersion']}", group["name"]) for v in group["versions"]]
    found: dict[tuple[str, str], str] = {}
    for root, group in groups:
        for resource in api.request("GET", root)["resources"]:
            if "list" in resource["verbs"] and resource["kind"] not in PASSING:
                found.setdefault((group, resource["name"]), f"{root}/{resource['name']}")
    return list(found.values())


def marked(content: Object, *marks: str) -> bool:
    """Whether an object is in, or named by, one of these."""
    meta = content["metadata"]
    told = [meta.get("namespace"), meta["name"], meta.get("labels"), meta.get("finalizers")]
    return any(mark in json.dumps(told) for mark in marks)


def traces_of(api: Api, *marks: str) -> list[str]:
    """Name every object of a cluster that is in, or named by, one of these."""
    return sorted(
        f"{path.rpartition('/')[2]}: {content['metadata']['name']}"
        for path in kinds_of(api)
        for content in api.request("GET", path)["items"]
        if marked(content, *marks)
    )


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what its ServerApp said."""

    run_id: str
    status: str
    said: str

    @property
    def rounds(self) -> list[list[int]]:
        """The partitions that took part, round by round."""
        return [one["sites"] for one in self._lines("round: ")]

    @property
    def model(self) -> list[float]:
        return list(self._lines("known: ")[-1]["model"])

    @property
    def files(self) -> list[int]:
        """How many files the sites found in their folders, round by round."""
        return list(self._lines("known: ")[-1]["files"])

    def _lines(self, start: str) -> list[Object]:
        return [
            json.loads(line.partition(start)[2]) for line in self.said.splitlines() if start in line
        ]


@dataclass(frozen=True)
class Person:
    """Somebody with the command line and a token, in the network of the nodes."""

    home: Path
    federation: Federation
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def umbel(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [*network.entering(SWITCH), sys.executable, "-m", "umbel", *words]
        env = {**self.environment, "UMBEL_HOME": str(self.home), "NO_COLOR": "1"}
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, check=False, timeout=300
        )

    def connect(self, address: str = "") -> subprocess.CompletedProcess[str]:
        """Make the federation known to the command line, with the owner's token."""
        held = self.federation.secret(self.federation.names.user_secret("owner"))
        self.home.mkdir(parents=True, exist_ok=True)
        for name, content in held.items():
            (self.home / name).write_bytes(content)
            (self.home / name).chmod(0o600)
        control = address or self.federation.seen()["status"]["endpoint"]["control"]
        files = ("--ca", str(self.home / "ca.crt"), "--token-file", str(self.home / "token"))
        return self.umbel("connect", self.federation.name, "--address", control, *files)

    def starts(self, app: Path = KNOWN, **config: float) -> str:
        """Submit the app; give the run."""
        told = [f"{key.replace('_', '-')}={value}" for key, value in config.items()]
        pairs = [word for pair in told for word in ("-c", pair)]
        name = self.federation.name
        done = self.umbel("run", str(app), "-n", name, "--detach", "-o", "json", *pairs)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["run_id"])

    def run_now(self, run_id: str) -> Object:
        """Give what the federation knows of a run; nothing while its hub does not answer."""
        done = self.umbel("runs", "-n", self.federation.name, "-o", "json")
        found = json.loads(done.stdout) if done.returncode == 0 else []
        return next((dict(run) for run in found if str(run["run_id"]) == run_id), {})

    def until_round(self, run_id: str, number: int) -> None:
        """Wait until so many rounds of a run are over."""
        over = lambda: self.run_now(run_id).get("rounds_done", 0) >= number  # noqa: E731
        eventually(f"round {number} of run {run_id}", over)

    def ends(self, run_id: str, seconds: float = PATIENCE_S) -> Ended:
        """Wait for the end of a run; give how it ended."""
        last: list[Object] = [{}]
        follow = ("logs", run_id, "-n", self.federation.name, "--follow")

        def ended() -> bool:
            self.umbel(*follow)  # goes on while the run does, and the hub answers
            last[0] = self.run_now(run_id)
            return last[0].get("status") in ENDED

        eventually(f"the end of run {run_id}", ended, seconds, lambda: json.dumps(last[0])[:2000])
        said = self.umbel("logs", run_id, "-n", self.federation.name).stdout
        return Ended(run_id, str(last[0]["status"]), said)

    def runs(self, app: Path = KNOWN, **config: float) -> Ended:
        return self.ends(self.starts(app, **config))
