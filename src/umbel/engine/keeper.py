"""Keeps a federation as declared, one look at a time: for targets that tell what changed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from umbel.engine.engine import CannotLook, Engine, NotReady, chosen, hub_answers
from umbel.flower import versions
from umbel.model.federation import Federation
from umbel.model.plan import Action
from umbel.model.status import FederationStatus
from umbel.model.unit import HUB
from umbel.planning import diff
from umbel.ports import Progress, Store, Target

UP_TIMEOUT_S = 600.0


class Keeper:
    """Every step may be the first one, and may be repeated: it looks before it does anything."""

    def __init__(self, engine: Engine, target: Target, store: Store) -> None:
        self._engine = engine
        self._target = target
        self._store = store

    async def step(self, federation: Federation) -> FederationStatus:
        """Do what can be done now; gives how the federation is afterwards."""
        name = federation.name
        versions.require(federation.spec.runtime.flower)
        self._store.save_federation(federation)
        await self._target.prepare(federation)
        groups = await self._target.place(federation)
        sites = [site for verdicts in groups.values() for site in chosen(verdicts)]
        allotment = await self._target.allot(federation, sites)
        decision = await self._engine.decide(federation, allotment)
        if decision.plan.blind:
            raise CannotLook(decision.plan.blind)
        changes = decision.plan.changes
        gone = [step.unit for step in changes if step.action is Action.REMOVE]
        if gone:
            await self._target.remove(name, gone)
        new = [decision.wanted[s.unit] for s in changes if s.action is not Action.REMOVE]
        touched = {unit.site for unit in new}  # a site's units change together: one pod has them
        units = diff.in_order({n: u for n, u in decision.wanted.items() if u.site in touched})
        if hub := [unit for unit in units if unit.site == HUB]:
            await self._target.ensure(hub)
        if others := [unit for unit in units if unit.site != HUB]:
            await self._target.ensure(others)
        if hub_answers(await self._target.observe(name)):
            await self._target.admit(name, sites)
        await self._target.tend(name)
        return await self._engine.status(name)

    async def up(
        self, federation: Federation, progress: Progress, changed: Callable[[], Awaitable[None]]
    ) -> FederationStatus:
        """Step until the federation takes runs; between steps wait for something to change."""
        deadline_s = time.monotonic() + UP_TIMEOUT_S
        told = ""
        while True:
            status = await self.step(federation)
            ready = status.conditions[0]
            if ready.status == "True":
                return status
            if ready.message != told:
                told = ready.message
                progress(told)
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise NotReady(federation.name, ready.message, UP_TIMEOUT_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await changed()
