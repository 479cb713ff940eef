"""A target that keeps its units in memory."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from umbel.errors import UmbelError
from umbel.identity.partitions import assign
from umbel.model.federation import Federation, Target
from umbel.model.site import Verdict
from umbel.model.status import CertificateStatus, Condition
from umbel.model.unit import HUB, Health, Kind, Present, Sighting, Unit, Unknown
from umbel.planning.choosing import choose_sites
from umbel.planning.render import as_site, declared_sites
from umbel.ports import Allotment, Store
from umbel.testing.builders import fingerprint_of, present

FIRST_PORT = 20_000


class FakeTarget:
    """Keeps the promises of a target. `log` says what was asked of it, in order."""

    def __init__(self, store: Store, *, runs: Path = Path("/nowhere")) -> None:
        self._store = store
        self._runs = runs
        self._units: dict[str, dict[str, Unit]] = {}
        self._keys: dict[str, dict[str, str]] = {}
        self.log: list[tuple[str, ...]] = []
        self.blind = ""  # why nobody can look
        self.failing: dict[str, str] = {}  # unit: what it says
        self.lost: set[str] = set()  # units whose port somebody else took
        self.slow: set[str] = set()  # units that never get further than starting
        self.refuses: UmbelError | None = None  # what `ensure` raises
        self.listed: list[CertificateStatus] = []
        self.in_the_way: list[Condition] = []
        self.ended: list[str] = []  # runs whose tasks were ended

    @property
    def name(self) -> Target:
        """What the document calls it."""
        return Target.LOCAL

    async def place(self, federation: Federation) -> Mapping[str, tuple[Verdict, ...]]:
        """Judge the sites that the document declares."""
        declared = [d for group in federation.spec.groups for d in declared_sites(group)]
        sites = {d.name: as_site(d, str(Target.LOCAL)) for d in declared}
        units = self._units.get(federation.name, {}).values()
        running = set() if self.blind else {unit.site for unit in units} - {HUB}
        return choose_sites(federation, sites, running, time.time())

    async def tend(self, federation: str) -> None:
        """Do what waits for the right moment: here, nothing does."""

    async def hindrances(self, federation: str) -> Sequence[Condition]:
        """Give what the test put in the way."""
        del federation
        return tuple(self.in_the_way)

    async def allot(self, federation: Federation, sites: Sequence[str]) -> Allotment:
        """Give ports and partition ids, and remember them."""
        known = self._store.allotment(federation.name)
        declared = federation.spec.superlink.ports.model_dump(exclude_none=True)
        purposes = ["fleet", "control", "runtime", *(f"site/{site}" for site in sites)]
        ports = {**known.ports, **declared}
        for purpose in purposes:
            ports.setdefault(purpose, max([FIRST_PORT - 1, *ports.values()]) + 1)
        made = Allotment(ports, assign(sites, known.partitions))
        self._store.save_allotment(federation.name, made)
        return made

    async def observe(self, federation: str) -> Mapping[str, Sighting]:
        """Tell of each unit what a look would find."""
        units = self._units.get(federation, {})
        if self.blind:
            return {name: Unknown(self.blind) for name in units}
        return {name: self._sighting(unit) for name, unit in units.items()}

    async def lost_ports(self, federation: str) -> Sequence[str]:
        """Name the units that the test put into `lost`, as long as they are there."""
        return sorted(self.lost & self._units.get(federation, {}).keys())

    async def release(self, federation: str, units: Collection[str]) -> None:
        """End the units without revoking anything; they come back with other ports."""
        self.log.append(("release", *sorted(units)))
        for name in units:
            self.lost.discard(name)
            self.failing.pop(name, None)
            self._units.get(federation, {}).pop(name, None)

    def _sighting(self, unit: Unit) -> Present:
        if unit.name in self.failing:
            return present(unit, Health.FAILING, message=self.failing[unit.name], restarts=9)
        return present(unit, Health.STARTING if unit.name in self.slow else Health.READY)

    async def prepare(self, federation: Federation) -> None:
        """Have the hub's identity."""
        self._keys.setdefault(federation.name, {})
        self.log.append(("prepare", federation.name))

    async def renew(self, federation: Federation) -> Sequence[str]:
        """Prepare; nothing of a fake ends."""
        await self.prepare(federation)
        return ()

    async def admit(self, federation: str, sites: Collection[str]) -> None:
        """Forget the keys of all others."""
        held = self._keys.get(federation, {})
        for site in [site for site in held if site not in sites]:
            self.log.append(("revoke", site))
            del held[site]

    async def ensure(self, units: Sequence[Unit]) -> None:
        """Have these units; sites get their keys."""
        self.log.append(("ensure", *(unit.name for unit in units)))
        if self.refuses is not None:
            raise self.refuses
        for unit in units:
            self._units.setdefault(unit.federation, {})[unit.name] = unit
            if unit.kind is Kind.SUPERNODE:
                self._keys.setdefault(unit.federation, {})[unit.site] = fingerprint_of(unit.site)

    async def remove(self, federation: str, units: Collection[str]) -> None:
        """End the units; a site whose SuperNode goes loses its key."""
        self.log.append(("remove", *sorted(units)))
        for name in units:
            self._units.get(federation, {}).pop(name, None)
            if name.endswith(f"/{Kind.SUPERNODE}"):
                self._keys.get(federation, {}).pop(name.partition("/")[0], None)

    async def destroy(self, federation: str, *, keep_data: bool) -> None:
        """End everything; keys stay with `keep_data` only."""
        self.log.append(("destroy", federation, "keep" if keep_data else "all"))
        self._units.pop(federation, None)
        if not keep_data:
            self._keys.pop(federation, None)

    async def certificates(self, federation: str) -> Sequence[CertificateStatus]:
        """Give what the test put into `listed`, while the federation has an identity."""
        return tuple(self.listed) if federation in self._keys else ()

    def fingerprints(self, federation: str) -> Mapping[str, str]:
        """Give the key that each site's name is bound to."""
        return dict(self._keys.get(federation, {}))

    async def rotate(self, federation: Federation) -> None:
        """Note it."""
        self.log.append(("rotate", federation.name))

    async def end_rotation(self, federation: Federation) -> None:
        """Note it."""
        self.log.append(("end-rotation", federation.name))

    def run_places(self, federation: str) -> Mapping[str, Path]:
        """Say where runs are kept: folders below the one given at the start."""
        sites = {unit.site for unit in self._units.get(federation, {}).values()}
        return {site: self._runs / site for site in sorted(sites)}

    async def end_tasks(self, federation: str, run_id: str) -> int:
        """Note it; there is never a process."""
        del federation
        self.ended.append(run_id)
        return 0
