"""Look, place, render, diff; then apply in stages and judge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from umbel import __version__
from umbel.errors import RequestError, UmbelError, WorldError
from umbel.flower import versions
from umbel.identity.partitions import assign
from umbel.model.federation import Federation
from umbel.model.plan import Action, Plan, Step
from umbel.model.site import Verdict
from umbel.model.status import FederationStatus, NodeSeen, RunStatus
from umbel.model.unit import HUB, STAGES, Health, Kind, Present, Sighting, Unit
from umbel.planning import diff, health, render
from umbel.ports import Allotment, Flower, Progress, Store
from umbel.ports import Target as TargetPort

READY_TIMEOUT_S = 120.0
LOOK_AGAIN_S = 0.1
PORT_TRIES = 3
GIVE_UP_AFTER = 3  # starts of a hub unit that ended at once


class PlanOutdated(RequestError):
    """The world has changed since the plan was made."""

    code = "U320"

    def __init__(self, federation: str) -> None:
        super().__init__(
            f"{federation} has changed since this plan was made",
            hint="make a new plan and look at it: umbel plan",
        )


class FederationUnknown(RequestError):
    """There is no federation of that name."""

    code = "U321"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        there = f"there are: {', '.join(known)}" if known else "there is none yet"
        super().__init__(f"there is no federation {name!r} here; {there}", hint="umbel up -f FILE")


class GroupUnknown(RequestError):
    """The federation has no such group."""

    code = "U322"

    def __init__(self, group: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no group {group!r}", hint=f"groups: {', '.join(known)}")


class TargetNotHere(RequestError):
    """The document names a target that this version cannot serve."""

    code = "U323"

    def __init__(self, target: str, here: str) -> None:
        super().__init__(
            f"target {target!r} cannot be served here",
            hint=f"this federation is kept on {here}: groups and superlink with `on: {here}` can",
        )


class UnitFailed(WorldError):
    """A part does not come up."""

    code = "U222"

    def __init__(self, unit: str, message: str) -> None:
        super().__init__(f"{unit} does not come up: {message}", hint="umbel doctor; umbel status")


class NotReady(WorldError):
    """The federation is not ready in time."""

    code = "U223"

    def __init__(self, federation: str, message: str, after_s: float = READY_TIMEOUT_S) -> None:
        super().__init__(
            f"{federation} is not ready after {after_s:g} s: {message}",
            hint="umbel status -o wide tells what is missing; umbel doctor looks for causes",
        )


class Interrupted(RequestError):
    """Somebody took the federation down while it came up."""

    code = "U319"

    def __init__(self, federation: str) -> None:
        super().__init__(f"{federation} was taken down meanwhile", hint="umbel up starts it again")


class RunsActive(RequestError):
    """Something was asked that would disturb a run."""

    code = "U340"

    def __init__(self, runs: Sequence[str]) -> None:
        super().__init__(
            f"{len(runs)} runs are under way: {', '.join(runs[:3])}",
            hint="wait for them (umbel runs), or stop them (umbel stop RUN)",
        )


class CannotLook(WorldError):
    """What is there could not be seen, so nothing was changed."""

    code = "U224"

    def __init__(self, steps: Sequence[Step]) -> None:
        first = steps[0]
        super().__init__(f"{first.unit}: {first.reason}", hint="nothing was changed; try again")


_Look: TypeAlias = tuple[health.World, tuple[RunStatus, ...] | None]


class _PortLost(Exception):  # caught where ports are chosen
    """A port that was free when it was chosen is not any more."""

    def __init__(self, units: Sequence[str]) -> None:
        super().__init__()
        self.units = units


@dataclass(frozen=True, slots=True)
class Decision:
    """What is wanted, who is used for it, and what is to be done."""

    wanted: Mapping[str, Unit]
    by_group: Mapping[str, tuple[Verdict, ...]]
    plan: Plan

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every site's verdict."""
        return tuple(v for found in self.by_group.values() for v in found)


class Engine:
    """One engine serves every federation of its target."""

    def __init__(self, store: Store, target: TargetPort, flower: Flower) -> None:
        self._store = store
        self._target = target
        self._flower = flower
        self._locks: dict[str, asyncio.Lock] = {}
        self._applying: dict[str, asyncio.Task[Plan]] = {}

    async def plan(self, federation: Federation) -> Plan:
        """Say what apply would do. Changes nothing."""
        return (await self.decide(federation, await self._expected(federation))).plan

    async def _expected(self, federation: Federation) -> Allotment:
        """Foresee what would be allotted, as far as that can be known without looking for ports."""
        known = self._store.allotment(federation.name)
        sites = [s for v in (await self._verdicts(federation)).values() for s in chosen(v)]
        declared = federation.spec.superlink.ports.model_dump(exclude_none=True)
        partitions = assign(sites, known.partitions)
        return Allotment({**known.ports, **declared}, partitions, known.addresses)

    async def rotate_authority(self, federation: Federation, progress: Progress) -> Plan:
        """Put a new CA in the old one's place, then apply. Refused while an app runs."""
        if hub_answers(await self._target.observe(federation.name)):
            active = [r.run_id for r in await self._flower.runs(federation.name) if not r.ended]
            if active:
                raise RunsActive(active)
        progress("new CA: renewing every certificate")
        await self._target.rotate(federation)
        plan = await self.apply(federation, progress)
        await self._target.end_rotation(federation)
        return plan

    async def apply(self, federation: Federation, progress: Progress, basis: str = "") -> Plan:
        """Make the world as declared; returns when the federation takes runs."""
        versions.require(federation.spec.runtime.flower)
        async with self._locks.setdefault(federation.name, asyncio.Lock()):
            before = await self.plan(federation)
            if basis and basis != before.basis:
                raise PlanOutdated(federation.name)
            if before.blind:
                raise CannotLook(before.blind)
            task = asyncio.create_task(self._apply(federation, progress))
            self._applying[federation.name] = task
            try:
                return await task
            except asyncio.CancelledError:
                if task.cancelled():
                    raise Interrupted(federation.name) from None
                raise
            finally:
                self._applying.pop(federation.name, None)

    async def _apply(self, federation: Federation, progress: Progress) -> Plan:
        """Apply; where another program took a port meanwhile, take another port and go on."""
        for _ in range(PORT_TRIES):
            try:
                return await self._apply_once(federation, progress)
            except _PortLost as lost:
                progress(f"another program took a port of {', '.join(lost.units)}: choosing anew")
                await self._target.release(federation.name, lost.units)
        return await self._apply_once(federation, progress)

    async def _apply_once(self, federation: Federation, progress: Progress) -> Plan:
        sites = [s for v in (await self._verdicts(federation)).values() for s in chosen(v)]
        allotment = await self._target.allot(federation, sites)
        decision = await self.decide(federation, allotment)
        progress("identity: CA, certificates, keys")
        await self._target.renew(federation)
        self._store.save_federation(federation)  # from here on it is kept running
        changes = decision.plan.changes
        gone = [step.unit for step in changes if step.action is Action.REMOVE]
        if gone:
            progress(f"removing {len(gone)} units")
            await self._target.remove(federation.name, gone)
        new = {s.unit: decision.wanted[s.unit] for s in changes if s.action is not Action.REMOVE}
        for number, kinds in enumerate(STAGES):
            stage = [unit for unit in diff.in_order(new) if unit.kind in kinds]
            if stage:
                progress(_stage_words(stage))
                await self._target.ensure(stage)
            if number == 0:
                await self._until_hub_ready(federation.name, decision.wanted)
                await self._target.admit(federation.name, sites)
        if sites:
            progress(f"waiting for {len(sites)} sites to report")
        await self._until_ready(federation, decision, progress)
        return decision.plan

    async def _until_hub_ready(self, name: str, wanted: Mapping[str, Unit]) -> None:
        hub = {n: u for n, u in wanted.items() if u.kind in (Kind.SUPERLINK, Kind.GATE)}
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while True:
            seen = await self._target.observe(name)
            if diff.all_ready(hub, seen):
                return
            await self._look_for_lost_ports(name)
            _raise_if_failed(hub, seen)
            if time.monotonic() > deadline_s:
                raise NotReady(name, "the hub does not answer")
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _look_for_lost_ports(self, name: str) -> None:
        if lost := await self._target.lost_ports(name):
            raise _PortLost(lost)

    async def _until_ready(
        self, federation: Federation, decision: Decision, progress: Progress
    ) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        online = -1
        told: set[str] = set()
        while True:
            world, _ = await self.world(federation.name, decision.wanted)
            conditions = health.judge(world)
            if conditions[0].status == "True":
                return
            now_online = len(health.online_sites(world))
            if now_online != online:
                online = now_online
                progress(f"sites online: {online}")
            for failing in health.failing_sites(world):
                if failing not in told:
                    told.add(failing)
                    progress(failing)
            await self._look_for_lost_ports(federation.name)
            _raise_if_failed(decision.wanted, world.seen)
            if time.monotonic() > deadline_s:
                raise NotReady(federation.name, conditions[0].message)
            await asyncio.sleep(LOOK_AGAIN_S)

    async def down(self, name: str, *, keep_data: bool) -> None:
        """End everything of the federation."""
        self.require(name)
        if (applying := self._applying.get(name)) is not None:
            applying.cancel()
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._target.destroy(name, keep_data=keep_data)
            self._store.forget_federation(name, keep_allotment=keep_data)

    async def status(self, name: str) -> FederationStatus:
        """Judge what is there now."""
        federation = self.require(name)
        allotment = self._store.allotment(name)
        decision = await self.decide(federation, allotment)
        world, runs = await self.world(name, decision.wanted)
        conditions = health.judge(world)
        groups = {v.site: g for g, found in decision.by_group.items() for v in found}
        return FederationStatus(
            name=name,
            phase=health.phase(conditions, progressing=name in self._applying),
            endpoint=_endpoints(federation, allotment),
            versions={"umbel": __version__, "flower": versions.installed()},
            conditions=conditions,
            sites=health.site_statuses(world, decision.verdicts, groups, str(self._target.name)),
            certificates=tuple(world.certificates),
            runs=runs,
        )

    def known(self) -> Mapping[str, Federation]:
        """Give the declared federations."""
        return self._store.federations()

    def require(self, name: str) -> Federation:
        """Give the federation; an unknown name is an error that lists the known ones."""
        known = self._store.federations()
        if name not in known:
            raise FederationUnknown(name, list(known))
        return known[name]

    async def decide(self, federation: Federation, allotment: Allotment) -> Decision:
        by_group = await self._verdicts(federation)
        used = {group: chosen(verdicts) for group, verdicts in by_group.items()}
        wanted = render.render(federation, used, allotment)
        verdicts = tuple(v for group in by_group.values() for v in group)
        seen = await self._target.observe(federation.name)
        return Decision(wanted, by_group, diff.diff(federation.name, wanted, seen, verdicts))

    async def _verdicts(self, federation: Federation) -> Mapping[str, tuple[Verdict, ...]]:
        for target in (federation.spec.superlink.on, *(g.on for g in federation.spec.groups)):
            if target is not self._target.name:
                raise TargetNotHere(str(target), str(self._target.name))
        return await self._target.place(federation)

    async def world(self, name: str, wanted: Mapping[str, Unit]) -> _Look:
        seen = await self._target.observe(name)
        nodes: Sequence[NodeSeen] | None = None
        runs: tuple[RunStatus, ...] | None = None
        why = "the hub does not answer"
        if hub_answers(seen):
            try:
                nodes, found = await self._flower.look(name)
                runs = tuple(found)
            except UmbelError as error:
                why = error.fact
        world = health.World(
            wanted=wanted,
            seen=seen,
            nodes=nodes,
            nodes_why=why,
            certificates=await self._target.certificates(name),
            hindrances=await self._target.hindrances(name),
            fingerprints=self._target.fingerprints(name),
        )
        return world, runs


def chosen(verdicts: Sequence[Verdict]) -> list[str]:
    return [verdict.site for verdict in verdicts if verdict.chosen]


def hub_answers(seen: Mapping[str, Sighting]) -> bool:
    gate = seen.get(f"{HUB}/{Kind.GATE}")
    link = seen.get(f"{HUB}/{Kind.SUPERLINK}")
    return all(isinstance(s, Present) and s.health is Health.READY for s in (gate, link))


def _raise_if_failed(wanted: Mapping[str, Unit], seen: Mapping[str, Sighting]) -> None:
    """A hub unit that ends again and again will not come up by waiting."""
    for name, unit in wanted.items():
        if unit.kind not in (Kind.SUPERLINK, Kind.GATE, Kind.SERVER_EXEC):
            continue
        match seen.get(name):
            case Present(health=Health.FAILING, restarts=restarts, message=message):
                if restarts >= GIVE_UP_AFTER:
                    raise UnitFailed(name, message)
            case _:
                pass


def _stage_words(stage: Sequence[Unit]) -> str:
    kinds = sorted({str(unit.kind) for unit in stage})
    return f"starting {len(stage)} units: {', '.join(kinds)}"


def _endpoints(federation: Federation, allotment: Allotment) -> dict[str, str]:
    host = federation.spec.superlink.endpoint
    ports = allotment.ports
    return {
        "fleet": f"{host}:{ports.get('fleet', 0)}",
        "control": f"{host}:{ports.get('control', 0)}",
        "runtime": f"127.0.0.1:{ports.get('runtime', 0)}",
        **allotment.addresses,
    }
