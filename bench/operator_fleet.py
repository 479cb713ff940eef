"""Managed clusters that are only objects on the hub, and one process that answers for all of them.

    python bench/operator_fleet.py KUBECONFIG    # the klusterlets: answers every work until ended

A cluster's work is answered as its klusterlet would: applied, available, and with what the agent of a
site reports (its public key, online, the release that it was given).
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from umbel.errors import UmbelError
from umbel.identity.issuance import new_key
from umbel.kube import kinds, kubeconfig
from umbel.kube.client import Kube, Limiter, WatchEnded
from umbel.kube.kinds import Object
from umbel.targets.ocm.sites import CONFIG, SITE

AT_ONCE = 16
LABEL = {"fleet": "bench"}


def unlimited(path: Path) -> Kube:
    """Open a client that waits for nobody: a thousand clusters have a thousand clients."""
    return Kube(kubeconfig.find(path), limiter=Limiter(1e9, 1e9))


def names(count: int) -> list[str]:
    """Name the clusters."""
    return [f"fake{number:05}" for number in range(count)]


async def create(kube: Kube, count: int) -> None:
    """Have so many clusters: accepted, joined and available, each with its namespace."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with room:
            await kube.apply(_named("v1", "Namespace", name))
            await kube.apply(
                _named(kinds.CLUSTER.api, "ManagedCluster", name, labels=LABEL)
                | {"spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 60}}
            )
            conditions = [
                _condition(kind, "True")
                for kind in (
                    "HubAcceptedManagedCluster",
                    "ManagedClusterJoined",
                    "ManagedClusterConditionAvailable",
                )
            ]
            seen = _named(kinds.CLUSTER.api, "ManagedCluster", name)
            await kube.apply(seen | {"status": {"conditions": conditions}}, status=True)

    await asyncio.gather(*map(one, names(count)))


def _named(api: str, kind: str, name: str, **meta: object) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}}


def _condition(kind: str, status: str, generation: int = 0) -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind,
        "status": status,
        "reason": "Bench",
        "message": "",
        "lastTransitionTime": now,
        "observedGeneration": generation,
    }


class Klusterlets:
    """Answers works as they come."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._keys: dict[str, str] = {}
        self._due: asyncio.Queue[Object] = asyncio.Queue()
        self._answered: dict[str, int] = {}

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def _watch(self) -> None:
        while True:
            found, version = await self._kube.list(kinds.WORK)
            self._take(found)
            try:
                while True:
                    async for what, content in self._kube.watch(kinds.WORK, version):
                        version = content["metadata"]["resourceVersion"]
                        if what in ("ADDED", "MODIFIED"):
                            self._take([content])
            except (WatchEnded, UmbelError):
                continue

    def _take(self, works: Iterable[Object]) -> None:
        for work in works:
            meta = work["metadata"]
            generation = int(meta["generation"])
            if self._answered.get(meta["uid"]) != generation:
                self._answered[meta["uid"]] = generation
                self._due.put_nowait(work)

    async def _work(self) -> None:
        while True:
            work = await self._due.get()
            try:
                await self._kube.apply(self._answer(work), status=True)
            except UmbelError as error:
                sys.stderr.write(f"{error}\n")

    def _answer(self, work: Object) -> Object:
        meta = work["metadata"]
        manifests = work["spec"]["workload"]["manifests"]
        generation = int(meta["generation"])
        conditions = [_condition(kind, "True", generation) for kind in ("Applied", "Available")]
        said = [
            self._manifest(number, content, meta["namespace"], _release(manifests))
            for number, content in enumerate(manifests)
        ]
        return {
            "apiVersion": kinds.WORK.api,
            "kind": kinds.WORK.name,
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "status": {"conditions": conditions, "resourceStatus": {"manifests": said}},
        }

    def _manifest(self, number: int, content: Object, cluster: str, release: str) -> Object:
        api, about = content["apiVersion"], content["metadata"]
        group, _, version = api.rpartition("/")
        kind = content["kind"]
        found: Object = {
            "resourceMeta": {
                "ordinal": number,
                "group": group,
                "version": version,
                "kind": kind,
                "resource": f"{kind.lower()}s",
                "name": about["name"],
                "namespace": about.get("namespace", ""),
            },
            "conditions": [_condition("Applied", "True"), _condition("Available", "True")],
        }
        if (kind, about["name"]) == ("ConfigMap", SITE):
            said = {"publicKey": self._key(cluster), "state": "online", "release": release}
            found["statusFeedback"] = {"values": [_value(*pair) for pair in said.items()]}
        return found

    def _key(self, cluster: str) -> str:
        if cluster not in self._keys:
            public = new_key().public_key()
            pem = public.public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            self._keys[cluster] = pem.decode()
        return self._keys[cluster]


def _value(name: str, text: str) -> Object:
    return {"name": name, "fieldValue": {"type": "String", "string": text}}


def _release(manifests: Iterable[Object]) -> str:
    """Read what the site was told, as its agent would."""
    for content in manifests:
        if (content["kind"], content["metadata"]["name"]) == ("ConfigMap", CONFIG):
            told = base64.b64decode(content.get("binaryData", {}).get("node.json", ""))
            return str(json.loads(told or "{}").get("release", ""))
    return ""


async def _serve(path: Path) -> None:
    async with unlimited(path) as kube:
        await Klusterlets(kube).run()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
