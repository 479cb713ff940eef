"""One operator works, the others wait: a lease says who."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from umbel.errors import UmbelError
from umbel.kube.client import Kube
from umbel.kube.kinds import LEASE, Object

LEASE_S = 15
RENEW_S = 5.0
LOOK_S = 2.0
log = logging.getLogger("umbel.operator")
Clock = Callable[[], datetime]
Pause = Callable[[float], Awaitable[object]]


class LeaseLost(Exception):
    """Somebody else leads now: whoever loses the lease ends at once."""


class Leader:
    """Holds the lease, or waits for it."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Clock = lambda: datetime.now(UTC),
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._kube = kube
        self._clock, self._pause = clock, pause
        self._namespace = namespace
        self._name = name
        self._identity = identity

    async def become(self) -> None:
        """Return when the lease is ours."""
        while not await self._take():
            await self._pause(LOOK_S)
        log.info("%s leads", self._identity)

    async def stay(self) -> None:
        """Renew the lease; raises when it is lost or could not be renewed in time."""
        renewed = self._clock()
        while True:
            await self._pause(RENEW_S)
            try:
                if not await self._take():
                    raise LeaseLost
                renewed = self._clock()
            except UmbelError as error:
                log.warning("the lease cannot be renewed: %s", error)
                if self._clock() - renewed > timedelta(seconds=LEASE_S - RENEW_S):
                    raise LeaseLost from error

    async def give_up(self) -> None:
        """Let the next one begin at once."""
        found = await self._kube.get(LEASE, self._name, self._namespace)
        if found is not None and found["spec"].get("holderIdentity") == self._identity:
            found["spec"]["holderIdentity"] = ""
            await self._kube.replace(found)

    async def _take(self) -> bool:
        found = await self._kube.get(LEASE, self._name, self._namespace)
        if found is None:
            return await self._kube.create(self._lease({})) is not None
        holder = found["spec"].get("holderIdentity")
        if holder and holder != self._identity and not self._ended(found):
            return False
        return await self._kube.replace(self._lease(found)) is not None

    def _lease(self, found: Object) -> Object:
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = found.get("spec", {})
        mine = before.get("holderIdentity") == self._identity
        changes = int(before.get("leaseTransitions") or 0) + (not mine)
        return {
            "apiVersion": LEASE.api,
            "kind": LEASE.name,
            "metadata": found.get("metadata") or {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": LEASE_S,
                "acquireTime": before.get("acquireTime", now) if mine else now,
                "renewTime": now,
                "leaseTransitions": changes,
            },
        }

    def _ended(self, lease: Object) -> bool:
        renewed = lease["spec"].get("renewTime")
        if not renewed:
            return True
        ends = datetime.fromisoformat(renewed) + timedelta(seconds=LEASE_S)
        return ends < self._clock()
