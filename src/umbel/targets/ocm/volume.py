"""The hub's volume: it grows with the document, in place; it never shrinks, and keeps its class."""

from __future__ import annotations

import time

from umbel.errors import RequestError
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube, KubeRefused
from umbel.kube.kinds import Object
from umbel.model.federation import Federation
from umbel.model.kubernetes import HubOnKubernetes, Storage
from umbel.model.status import Condition
from umbel.placement.quantity import parse
from umbel.targets.ocm.names import Names

SIZED = "VolumeSized"
AGAIN_S = 15.0  # what was refused is not asked for with every look
REFUSED = (403, 422)  # by the storage class, or by the API server
# What the claim says when its volume cannot grow after all.
FAILED = ("ControllerResizeError", "NodeResizeError")


class VolumeCannotGrow(RequestError):
    """The hub's volume is smaller than declared and cannot grow."""

    code = "U395"

    def __init__(self, claim: str, wanted: str, why: str) -> None:
        super().__init__(
            f"the volume {claim} cannot grow to {wanted}: {why}",
            hint="its StorageClass must have allowVolumeExpansion: true; else declare its size of now",
        )


class VolumeCannotShrink(RequestError):
    """The hub's volume is larger than declared."""

    code = "U396"

    def __init__(self, claim: str, has: str, wanted: str) -> None:
        super().__init__(
            f"the volume {claim} has {has} and cannot shrink to {wanted}",
            hint=f"write kubernetes.storage.size: {has} or more, or begin anew without the data",
        )


class VolumeKeepsClass(RequestError):
    """The hub's volume is of another class than declared."""

    code = "U397"

    def __init__(self, claim: str, has: str, wanted: str) -> None:
        super().__init__(
            f"the volume {claim} is of class {has!r} and cannot become {wanted!r}",
            hint=f"write kubernetes.storage.className: {has}, or begin anew without the data",
        )


class Volume:
    """The volume of one hub."""

    def __init__(self, kube: Kube, cache: Cache, names: Names) -> None:
        self._kube = kube
        self._cache = cache
        self._names = names
        self._refused: tuple[VolumeCannotGrow, str, float] | None = None  # for this size, when
        self.found: list[Condition] = []

    def template(self) -> Object | None:
        """Give what the StatefulSet says of volumes: that can never be changed."""
        whole = self._cache[kinds.STATEFUL_SET].get(self._names.hub, self._names.namespace)
        for one in (whole or {}).get("spec", {}).get("volumeClaimTemplates") or ():
            said: Object = {k: v for k, v in one["spec"].items() if k != "volumeMode"}
            return said
        return None

    async def look(self, federation: Federation) -> None:
        """Let the volume grow; what is in the way is a condition, the federation goes on."""
        try:
            await self.settle(federation)
        except (VolumeCannotGrow, VolumeCannotShrink, VolumeKeepsClass) as error:
            words = f"{error.code} {error.fact}"
            self.found = [Condition(SIZED, "False", type(error).__name__, words, error.hint)]

    async def settle(self, federation: Federation) -> None:
        """Let the volume grow to what is declared; refuse what no volume does."""
        self.found = []
        claim = self.check(federation)
        if claim is None:
            return
        size = _declared(federation).size
        if parse(size) > parse(_asked(claim)):
            await self._grow(claim, size)
        else:
            self.found = _progress(claim, size)

    def check(self, federation: Federation) -> Object | None:
        """Refuse what no volume does; gives the claim, if there is one. Changes nothing."""
        claim = self._cache[kinds.CLAIM].get(f"state-{self._names.hub}-0", self._names.namespace)
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return None
        name, declared = claim["metadata"]["name"], _declared(federation)
        has, kept = _asked(claim), claim["spec"].get("storageClassName") or ""
        if declared.class_name and kept and declared.class_name != kept:
            raise VolumeKeepsClass(name, kept, declared.class_name)
        if parse(declared.size) < parse(has):
            raise VolumeCannotShrink(name, has, declared.size)
        return claim

    async def _grow(self, claim: Object, size: str) -> None:
        name = claim["metadata"]["name"]
        if self._refused and self._refused[1] == size:
            error, _, at_s = self._refused
            if time.monotonic() < at_s + AGAIN_S:
                raise error
        change = {"spec": {"resources": {"requests": {"storage": size}}}}
        try:
            made = await self._kube.merge(kinds.CLAIM, name, self._names.namespace, change)
        except KubeRefused as error:
            if error.status not in REFUSED:
                raise
            refused = VolumeCannotGrow(name, size, error.fact.partition(": ")[2])
            self._refused = (refused, size, time.monotonic())
            raise refused from error
        if made is not None:
            self._cache[kinds.CLAIM].put(made)
            self.found = _progress(made, size)


def _declared(federation: Federation) -> Storage:
    return (federation.spec.superlink.kubernetes or HubOnKubernetes()).storage


def _asked(claim: Object) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


def _progress(claim: Object, size: str) -> list[Condition]:
    """Say how far a volume is that has not its size yet; nothing if it has."""
    name, status = claim["metadata"]["name"], claim.get("status", {})
    has = status.get("capacity", {}).get("storage")
    if has is None or parse(has) >= parse(size):  # not bound yet, or done
        return []
    said = {c["type"]: c for c in status.get("conditions") or () if c.get("status") == "True"}
    for kind in FAILED:
        if kind in said:
            error = VolumeCannotGrow(name, size, said[kind].get("message", kind))
            words = f"{error.code} {error.fact}"
            return [Condition(SIZED, "False", "VolumeCannotGrow", words, error.hint)]
    words = f"the volume {name} grows from {has} to {size}"
    hint = ""
    if "FileSystemResizePending" in said:
        hint = (
            f"its file system grows when the hub's pod starts anew: kubectl delete pod {name[6:]}"
        )
    return [Condition(SIZED, "True", "VolumeGrows", words, hint)]
