"""The operator's loop: what changes wakes the federation that it belongs to, and no other."""

from __future__ import annotations

import asyncio
import logging
import time

from umbel.errors import UmbelError
from umbel.kube import kinds
from umbel.kube.cache import Cache, Watched
from umbel.kube.client import Kube
from umbel.kube.kinds import Kind, Object
from umbel.operator.events import Events
from umbel.operator.tenant import AGAIN_S, Tenant
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.settings import OcmSettings
from umbel.targets.ocm.watching import addon_of, federation_of, placement_of, watched, within

SETTLE_S = 0.1  # changes come in flocks: one look sees them all
REST = 4.0  # after a look, so many times what it cost: large federations are looked at less often
LONGEST_REST_S = 5.0
RENEW_S = 300.0  # certificates are looked at by the clock
WORKERS = 4
log = logging.getLogger("umbel.operator")


class Loop:
    """Has a tenant for each Federation, and looks at those that were woken."""

    def __init__(self, kube: Kube, settings: OcmSettings, instance: str) -> None:
        self._kube = kube
        self._settings = settings
        self._events = Events(kube, instance)
        here, system = settings.namespaces, settings.system
        own = Watched(kinds.FEDERATION, within(kinds.FEDERATION, here, system))
        self.cache = Cache(kube, [own, *watched(here, system)], self._changed)
        self.tenants: dict[str, Tenant] = {}  # by add-on name
        self._names: dict[str, Names] = {}
        self._due: dict[str, float] = {}
        self._rested: dict[str, float] = {}  # when changes may lead to a look again
        self._declared: dict[str, Object] = {}  # what the last look was told
        self._busy: set[str] = set()
        self._woken = asyncio.Event()
        self.looks = 0

    def _changed(self, kind: Kind, content: Object) -> None:
        if kind is kinds.FEDERATION:
            meta = content["metadata"]
            names = Names(meta["namespace"], meta["name"])
            self._names[names.addon] = names
            if self._is_news(names, meta):
                self._wake(names.addon)
        elif kind is kinds.DECISION:
            placement = placement_of(content)
            namespace, _, name = placement.partition("/")
            found = self.cache[kinds.PLACEMENT].get(name, namespace)
            if found is not None:
                self._stir(federation_of(found))
        else:
            self._stir(addon_of(content) if kind is kinds.WORK else federation_of(content))

    def _is_news(self, names: Names, meta: Object) -> bool:
        """Whether more changed than the status, which is our own word."""
        there = self.cache[kinds.FEDERATION].get(names.name, names.namespace) is not None
        said = {key: value for key, value in meta.items() if key != "resourceVersion"}
        same = there and self._declared.get(names.addon) == said
        self._declared[names.addon] = said if there else {}
        return not same

    def _stir(self, addon: str) -> None:
        """Look soon, but not before the last look has been rested from."""
        rest_s = self._rested.get(addon, 0.0) - time.monotonic()
        self._wake(addon, max(SETTLE_S, rest_s))

    def _wake(self, addon: str, in_s: float = SETTLE_S) -> None:
        due = time.monotonic() + in_s
        if addon in self._names and due < self._due.get(addon, float("inf")):
            self._due[addon] = due
            self._woken.set()

    async def run(self) -> None:
        """Watch and look until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cache.run())
            await self.cache.filled()
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            addon = self._next()
            if addon is None:
                await self._until_due()
                continue
            self._busy.add(addon)
            try:
                await self._look(addon)
            finally:
                self._busy.discard(addon)
                self._woken.set()

    def _next(self) -> str | None:
        now = time.monotonic()
        ready = [a for a, due in self._due.items() if due <= now and a not in self._busy]
        if not ready:
            return None
        first = min(ready, key=self._due.__getitem__)
        del self._due[first]
        return first

    async def _until_due(self) -> None:
        free = [due for addon, due in self._due.items() if addon not in self._busy]
        wait_s = max(0.0, min(free) - time.monotonic()) if free else None
        self._woken.clear()
        try:
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _look(self, addon: str) -> None:
        names = self._names[addon]
        if self.cache[kinds.FEDERATION].get(names.name, names.namespace) is None:
            for known in (self.tenants, self._names, self._rested, self._declared):
                known.pop(addon, None)
            return
        tenant = self.tenants.get(addon)
        if tenant is None:
            tenant = Tenant(self._kube, self.cache, names, self._settings, self._events)
            self.tenants[addon] = tenant
        self.looks += 1
        before_s = time.thread_time()
        try:
            again_s = await tenant.look()
        except UmbelError as error:
            log.warning("%s: %s", names.owner, error)
            again_s = AGAIN_S
        except Exception:  # a fault in one federation must not stop the others
            log.exception("%s: unforeseen", names.owner)
            again_s = AGAIN_S
        rest_s = min(LONGEST_REST_S, REST * (time.thread_time() - before_s))
        self._rested[addon] = time.monotonic() + rest_s
        if addon in self._due:  # something changed meanwhile
            self._due[addon] = max(self._due[addon], self._rested[addon])
        self._wake(addon, max(rest_s, RENEW_S if again_s is None else again_s))
