"""Brings a changed hub into force: between rounds, so that nobody's training is lost.

What it should become is tried first (trial.py). The parts that a run survives (SuperLink, gate, desk)
get a new image in place, in a pause between two rounds. Everything else waits until no run is under
way; then the pod is made anew.

A changed certificate, or changed users, need no new pod: the gate reads them as soon as the kubelet has
brought them. By itself that takes a minute; a note on the pod makes the kubelet look at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from umbel.errors import UmbelError
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.status import Condition
from umbel.targets.ocm import trial
from umbel.targets.ocm.desk import DeskClient
from umbel.targets.ocm.names import GROUP, Names
from umbel.targets.ocm.seeing import HOPELESS, condition_of

STUCK_S = 120.0
IN_PLACE = ("superlink", "gate", "desk")
BROUGHT = f"{GROUP}/gate-secret"  # annotation on the pod: the version of the gate's Secret
log = logging.getLogger("umbel.ocm")


class Upkeep:
    """Looks after one hub's pod."""

    def __init__(
        self, kube: Kube, cache: Cache, names: Names, desk: Callable[[], DeskClient]
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._names = names
        self._desk = desk
        self.found: list[Condition] = []

    async def look(self) -> None:
        """Bring the pod up to date if this is the moment for it."""
        self.found = []
        names = self._names
        pod = self._cache[kinds.POD].get(f"{names.hub}-0", names.namespace)
        whole = self._cache[kinds.STATEFUL_SET].get(names.hub, names.namespace)
        if pod is not None:
            await self._bring_secret(pod)
        if pod is None or whole is None or not _is_outdated(pod, whole):
            await self._end_trial()
            return
        ready = condition_of(pod, "Ready")
        if ready.get("status") != "True":
            self.found = [Condition("HubCurrent", "False", "HubChanging", "the hub restarts")]
            if _age_s(ready) > STUCK_S or _cannot_start(
                pod
            ):  # a container that restarts is back long before
                await self._renew(pod, "it does not come up as it is")
            return
        if trial.is_needed(pod, whole) and not await self._is_well(whole):
            return
        try:
            rounds = await self._desk().rounds()
        except UmbelError as error:
            self._wait(f"the desk cannot say whether a run is under way: {error.fact}")
            return
        if not rounds.active_runs:
            await self._renew(pod, "no run is under way")
        elif not rounds.in_round and (images := _images(pod, whole)):
            await self._patch(pod, images)
        else:
            self._wait(f"{rounds.active_runs} runs are under way")

    async def _bring_secret(self, pod: Object) -> None:
        """Note on the pod which Secret of the gate there is: the kubelet brings it then."""
        names = self._names
        secret = self._cache[kinds.SECRET].get(names.gate_secret, names.namespace)
        meta, ready = pod["metadata"], condition_of(pod, "Ready").get("status") == "True"
        if secret is None or not ready or meta.get("deletionTimestamp"):
            return
        version = secret["metadata"]["resourceVersion"]
        if meta.get("annotations", {}).get(BROUGHT) != version:
            note = {"metadata": {"annotations": {BROUGHT: version}}}
            await self._kube.strategic(kinds.POD, meta["name"], names.namespace, note)

    async def _is_well(self, whole: Object) -> bool:
        """Try what the hub should become; until that went well the hub is left as it is."""
        tried = self._cache[kinds.POD].get(trial.name_of(self._names), self._names.namespace)
        if tried is not None and not trial.is_of(tried, whole):
            await self._end_trial()
            return False
        if tried is None:
            log.info("%s: a changed hub is tried", self._names.owner)
            await self._kube.create(trial.pod(self._names, whole))
        found = trial.verdict(tried or {})
        self.found = [found] if found else []
        return found is None

    async def _end_trial(self) -> None:
        tried = self._cache[kinds.POD].get(trial.name_of(self._names), self._names.namespace)
        if tried is not None and not tried["metadata"].get("deletionTimestamp"):
            await self._kube.delete(kinds.POD, tried["metadata"]["name"], self._names.namespace)

    def _wait(self, why: str) -> None:
        words = f"a changed hub waits: {why}"
        self.found = [Condition("HubCurrent", "True", "WaitingForRuns", words)]

    async def _renew(self, pod: Object, why: str) -> None:
        words = f"the hub's pod is made anew: {why}"
        self.found = [Condition("HubCurrent", "False", "HubChanging", words)]
        if not pod["metadata"].get("deletionTimestamp"):
            log.info("%s: the hub's pod is made anew: %s", self._names.owner, why)
            await self._kube.delete(kinds.POD, pod["metadata"]["name"], self._names.namespace)

    async def _patch(self, pod: Object, images: dict[str, str]) -> None:
        """Change images in place: the kubelet restarts these containers and no others."""
        log.info("%s: new images in place for %s", self._names.owner, ", ".join(images))
        containers = [{"name": name, "image": image} for name, image in images.items()]
        change = {"spec": {"containers": containers}}
        await self._kube.strategic(
            kinds.POD, pod["metadata"]["name"], self._names.namespace, change
        )


def _cannot_start(pod: Object) -> bool:
    """Whether a container waits for an image or settings that are not to be had."""
    found = pod.get("status", {}).get("containerStatuses") or ()
    reasons = {seen.get("state", {}).get("waiting", {}).get("reason") for seen in found}
    return bool(reasons & HOPELESS)


def _age_s(condition: Object) -> float:
    since = condition.get("lastTransitionTime")
    return (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds() if since else 0.0


def _is_outdated(pod: Object, whole: Object) -> bool:
    status = whole.get("status", {})
    if status.get("observedGeneration") != whole["metadata"].get("generation"):
        return False  # its controller has not looked yet
    revision = pod["metadata"].get("labels", {}).get(trial.REVISION)
    return bool(status.get("updateRevision")) and revision != status["updateRevision"]


def _images(pod: Object, whole: Object) -> dict[str, str]:
    """List the containers that can change in place and have to."""
    wanted = {c["name"]: c["image"] for c in whole["spec"]["template"]["spec"]["containers"]}
    now = {c["name"]: c["image"] for c in pod["spec"]["containers"]}
    return {name: wanted[name] for name in IN_PLACE if now.get(name) != wanted[name]}
