"""One federation in the operator's care."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from umbel.documents import DocumentInvalid, load
from umbel.engine.engine import Engine
from umbel.engine.keeper import Keeper
from umbel.errors import UmbelError
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.federation import Federation
from umbel.model.status import Condition
from umbel.operator import reporting
from umbel.operator.events import Events
from umbel.store.memory import MemoryStore
from umbel.targets.ocm.crd import document
from umbel.targets.ocm.flower import OcmFlower
from umbel.targets.ocm.names import FINALIZER, Names
from umbel.targets.ocm.settings import OcmSettings
from umbel.targets.ocm.target import OcmTarget

log = logging.getLogger("umbel.operator")
KEEP = "umbel.dev/keep-data"  # annotation: "true" leaves volume, secrets and partition ids
AGAIN_S = 10.0  # after an error that time may heal
LOOK_S = 5.0  # while nodes are awaited: Flower tells nobody when one comes online
MOST_MISTAKES = 5  # of a document, in a condition
TELL_S = 1.0  # a status that says more of the same is written so often at most,
TELL_SITE_S = 0.004  # and so much less often for each site in it
READY_S = 15.0  # nor that a run has begun, or that a node fell silent; nothing is written for it


class Tenant:
    """Looks at its federation when told to; says when it wants to look again."""

    def __init__(
        self, kube: Kube, cache: Cache, names: Names, settings: OcmSettings, events: Events
    ) -> None:
        store = MemoryStore()
        self._kube = kube
        self._cache = cache
        self._names = names
        self._events = events
        self.target = OcmTarget(kube, cache, store, names, settings)
        engine = Engine(store, self.target, OcmFlower(self.target.desk))
        self._keeper = Keeper(engine, self.target, store)
        self._told: Object = {}
        self._told_s = 0.0
        self._read: tuple[Object, Federation] | None = None

    async def look(self) -> float | None:
        """Bring the federation closer to its document; gives when to look again by the clock."""
        found = self._cache[kinds.FEDERATION].get(self._names.name, self._names.namespace)
        if found is None:
            return None
        if found["metadata"].get("deletionTimestamp"):
            return await self._leave(found)
        if FINALIZER not in (found["metadata"].get("finalizers") or ()):
            await self._claim(found)
        try:
            federation = self._document(found)
            status = await self._keeper.step(federation)
        except UmbelError as error:
            wrong = _judged(error)
            self._events.warn(found, wrong.reason, wrong.message)
            await self._tell(found, lambda *a: reporting.trouble(wrong, *a))
            return AGAIN_S
        status, rollout = self.target.versioned(status), self.target.rollout
        wait_s = await self._tell(found, lambda *a: reporting.report(status, *a) | rollout)
        await self.target.publish(status)
        usual_s = READY_S if status.phase == "Ready" else LOOK_S
        return min(s for s in (wait_s, self.target.undecided_s, usual_s) if s)

    def _document(self, found: Object) -> Federation:
        """Read the document, once for each that is declared."""
        said = document(found)
        if self._read is None or self._read[0] != said:
            self._read = (said, read(found))
        return self._read[1]

    async def _claim(self, found: Object) -> None:
        """Have ourselves asked before the federation is deleted."""
        kept = [*(found["metadata"].get("finalizers") or ()), FINALIZER]
        meta = {"finalizers": kept, "resourceVersion": found["metadata"]["resourceVersion"]}
        names = self._names
        await self._kube.merge(kinds.FEDERATION, names.name, names.namespace, {"metadata": meta})

    async def _leave(self, found: Object) -> float | None:
        if FINALIZER not in (found["metadata"].get("finalizers") or ()):
            return None
        keep = (found["metadata"].get("annotations") or {}).get(KEEP) == "true"
        waiting = await self.target.dismantle(keep_data=keep)
        if waiting:
            leaving = Condition("Ready", "False", "Deleting", f"waiting for: {waiting}")
            await self._tell(
                found, lambda *a: reporting.trouble(leaving, *a) | {"phase": "Deleting"}
            )
            return 1.0
        left = [name for name in found["metadata"]["finalizers"] if name != FINALIZER]
        change = {"metadata": {"finalizers": left}}
        await self._kube.merge(kinds.FEDERATION, self._names.name, self._names.namespace, change)
        return None

    async def _tell(self, found: Object, write: Callable[..., Object]) -> float:
        """Write the status if it says something new; gives how long it must wait, if it must."""
        before = self._told or found.get("status") or {}
        generation = int(found["metadata"].get("generation", 0))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = write(generation, before, now)
        if status == before:
            return 0.0
        wait_s = TELL_S + TELL_SITE_S * len(status.get("sites") or ())
        wait_s += self._told_s - time.monotonic()
        if wait_s > 0 and reporting.gist(status) == reporting.gist(before):
            return wait_s
        self._note(found, before, status)
        wrapped = reporting.wrapped(self._names.name, self._names.namespace, status)
        await self._kube.apply(wrapped, status=True)
        self._told, self._told_s = status, time.monotonic()
        return 0.0

    def _note(self, found: Object, before: Object, status: Object) -> None:
        """Leave an event when the federation becomes ready, and when it stops being so."""
        if before.get("phase") != status["phase"]:
            first = (status.get("conditions") or [{}])[0]
            good = status["phase"] in ("Ready", "Progressing", "Deleting")
            say = self._events.tell if good else self._events.warn
            say(found, status["phase"], str(first.get("message", "")))


def read(content: Object) -> Federation:
    """Read the custom resource as a document, with every check that a document has."""
    return load(json.dumps(document(content)))


def _judged(error: UmbelError) -> Condition:
    fact = error.fact
    if isinstance(error, DocumentInvalid):  # a resource has no lines to point at
        fact = "; ".join(f"{p.field}: {p.fact}" for p in error.problems[:MOST_MISTAKES])
    return Condition("Ready", "False", type(error).__name__, f"{error.code} {fact}", error.hint)
