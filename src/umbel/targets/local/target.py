"""Makes units exist on this machine."""

from __future__ import annotations

import asyncio
import errno
import json
import shutil
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from umbel.agent.nursery_client import NurseryClient
from umbel.agent.processes import identify
from umbel.agent.supervisor import Supervisor, end_processes
from umbel.files import CannotWrite, ensure_private_folder, write_private
from umbel.identity import certificates, leaves, provision, tokens
from umbel.identity.at_rest import read_secret
from umbel.identity.authority import Authority, SecretUnused
from umbel.identity.node_keys import PRIVATE, PUBLIC
from umbel.identity.partitions import assign, natural
from umbel.identity.roster import Roster
from umbel.model.federation import Federation, Target, User
from umbel.model.site import Verdict
from umbel.model.status import CertificateStatus, Condition
from umbel.model.unit import HUB, Health, Kind, Present, Sighting, Unit
from umbel.planning.choosing import choose_sites
from umbel.planning.render import as_site, declared_sites, users
from umbel.ports import Allotment, Store
from umbel.sockets import is_answered
from umbel.targets.local import orders
from umbel.targets.local.flower import LocalFlower
from umbel.targets.local.free_ports import choose, is_free
from umbel.targets.local.layout import Layout

LOOPBACK = ("localhost", "127.0.0.1")
ROOM_BYTES = 32 << 20  # for a SuperLink's database, logs and an app


class LocalTarget:
    """This machine. Runs in the daemon, which supervises what it starts."""

    def __init__(
        self,
        home: Path,
        store: Store,
        nursery: NurseryClient,
        supervisor: Supervisor,
        flower: LocalFlower,
    ) -> None:
        self._home = home
        self._store = store
        self._nursery = nursery
        self._supervisor = supervisor
        self._flower = flower

    @property
    def name(self) -> Target:
        """What the document calls it."""
        return Target.LOCAL

    async def place(self, federation: Federation) -> Mapping[str, tuple[Verdict, ...]]:
        """Judge the sites that the document's groups declare."""
        declared = [d for group in federation.spec.groups for d in declared_sites(group)]
        sites = {d.name: as_site(d, str(Target.LOCAL)) for d in declared}
        seen = self._supervisor.observe(federation.name).values()
        return choose_sites(federation, sites, {s.site for s in seen} - {HUB}, time.time())

    async def tend(self, federation: str) -> None:
        """Do what waits for the right moment: here, nothing does."""

    async def hindrances(self, federation: str) -> Sequence[Condition]:
        """Give what is in the way: on one machine, nothing but what the units say."""
        del federation
        return ()

    async def allot(self, federation: Federation, sites: Sequence[str]) -> Allotment:
        """Give ports and partition ids, and remember them."""
        name = federation.name
        known = self._store.allotment(name)
        others = [self._store.allotment(f) for f in self._store.federations() if f != name]
        taken = {port for other in others for port in other.ports.values()}
        declared = federation.spec.superlink.ports
        wanted: dict[str, int | None] = {
            "fleet": declared.fleet,
            "control": declared.control,
            "runtime": declared.runtime,
            **{f"site/{site}": None for site in sites},
        }
        ports = choose(wanted, known.ports, taken, self._ports_in_use(name))
        made = Allotment({**known.ports, **ports}, assign(sites, known.partitions))
        if made != known:
            self._store.save_allotment(name, made)
        return made

    def _ports_in_use(self, federation: str) -> set[str]:
        seen = self._supervisor.observe(federation)
        used = {f"site/{s.site}" for s in seen.values() if s.kind is Kind.SUPERNODE}
        gate = any(s.kind is Kind.GATE for s in seen.values())
        return used | ({"fleet", "control", "runtime"} if gate else set())

    async def lost_ports(self, federation: str) -> Sequence[str]:
        """Name the units that cannot start because somebody else took their port meanwhile."""
        ports = self._store.allotment(federation).ports
        lost = []
        for name, seen in self._supervisor.observe(federation).items():
            if seen.health is not Health.FAILING:
                continue
            doors = ("fleet", "control", "runtime") if seen.kind is Kind.GATE else ()
            own = (f"site/{seen.site}",) if seen.kind is Kind.SUPERNODE else doors
            if any(not is_free(ports[purpose]) for purpose in own if purpose in ports):
                lost.append(name)
        return lost

    async def observe(self, federation: str) -> Mapping[str, Sighting]:
        """Look at every unit; the hub's must answer, not only run."""
        seen: dict[str, Sighting] = dict(self._supervisor.observe(federation))
        layout = Layout(self._home, federation)
        for name, sighting in seen.items():
            if isinstance(sighting, Present) and sighting.kind in (Kind.SUPERLINK, Kind.GATE):
                seen[name] = await _answering(sighting, layout, self._store.allotment(federation))
        return seen

    async def prepare(self, federation: Federation) -> None:
        """Have the hub's identity, its users, and Flower loaded, and room to work in."""
        free = shutil.disk_usage(self._home).free
        if free < ROOM_BYTES:
            left = f"only {free >> 20} MiB are left, {ROOM_BYTES >> 20} are needed"
            raise CannotWrite(self._home, OSError(errno.ENOSPC, left))
        loaded = asyncio.create_task(self._nursery.ensure())
        try:
            renewed = await asyncio.to_thread(self._hub_identity, federation)
        finally:
            await loaded
        if renewed:
            self._supervisor.send(federation.name, f"{HUB}/{Kind.GATE}", signal.SIGHUP)

    def _hub_identity(self, federation: Federation) -> bool:
        layout, security = Layout(self._home, federation.name), federation.spec.security
        ensure_private_folder(layout.root)
        for folder in (layout.place(HUB), layout.superlink_socket.parent, layout.tokens):
            ensure_private_folder(folder)
        authority = self._authority(federation)
        link = federation.spec.superlink
        leaf = leaves.ensure(
            authority,
            layout.place(HUB),
            "server",
            sorted({link.endpoint, *link.alternative_names, *LOOPBACK}),
            now=datetime.now(UTC),
            days=security.certificate_days,
        )
        tokens.ensure_secret(layout.secret(HUB))
        allowed = [
            User.model_validate({"name": n, "role": r}) for n, r in users(federation).items()
        ]
        tokens.prune(layout.tokens, [user.name for user in allowed])
        changed = tokens.write_users(layout.gate_users, allowed, layout.tokens)
        if not layout.roster.exists():
            write_private(layout.roster, "{}")
        self._folders(layout, HUB)
        return bool(leaf.issued) or changed

    def _authority(self, federation: Federation) -> Authority:
        security = federation.spec.security
        secret = read_secret(security.ca_key) if security.ca_key is not None else None
        return Authority.create(
            Layout(self._home, federation.name).authority,
            federation.name,
            now=datetime.now(UTC),
            days=security.ca_days,
            secret=secret,
        )

    def _folders(self, layout: Layout, site: str) -> None:
        place = layout.place(site)
        for folder in (place, place / "logs", place / "flower", place / "runs", place / "tasks"):
            ensure_private_folder(folder)

    async def ensure(self, units: Sequence[Unit]) -> None:
        """Have these units run; sites are enrolled before their SuperNodes start."""
        nodes = [unit for unit in units if unit.kind is Kind.SUPERNODE]
        if nodes:
            await self._enrol(nodes)
        for unit in units:
            if unit.kind is Kind.GATE:
                layout = Layout(self._home, unit.federation)
                config = orders.gate_config(layout, unit)
                write_private(layout.gate_config, json.dumps(config, indent=1))
        async with asyncio.TaskGroup() as group:
            for unit in units:
                group.create_task(self._supervisor.start(unit))

    async def _enrol(self, nodes: Sequence[Unit]) -> None:
        """Each site makes its key; the key is bound to the site's name, here and at the SuperLink."""
        name = nodes[0].federation
        federation = self._store.federations()[name]
        layout = Layout(self._home, name)
        identities = await asyncio.to_thread(self._site_identities, federation, nodes)
        keys = {site: identity.node for site, identity in identities.items()}
        Roster(layout.roster).add_all({site: key.fingerprint for site, key in keys.items()})
        await self._flower.enrol(name, keys)

    def _site_identities(
        self, federation: Federation, nodes: Sequence[Unit]
    ) -> dict[str, provision.SiteIdentity]:
        layout = Layout(self._home, federation.name)
        for unit in nodes:
            self._folders(layout, unit.site)
            tokens.ensure_secret(layout.secret(unit.site))
        return provision.ensure_sites(
            self._authority(federation),
            {unit.site: layout.place(unit.site) for unit in nodes},
            now=datetime.now(UTC),
            days=federation.spec.security.certificate_days,
        )

    async def renew(self, federation: Federation) -> list[str]:
        """Renew what has ended or ends soon; gives the sites that had to be restarted for it."""
        await self.prepare(federation)
        kept = self._store.units(federation.name)
        nodes = [k.unit for k in kept.values() if k.unit.kind is Kind.SUPERNODE]
        made = await asyncio.to_thread(self._site_identities, federation, nodes)
        renewed = [unit for unit in nodes if made[unit.site].server.issued]
        for unit in renewed:
            await self._supervisor.start(unit)
        return [unit.site for unit in renewed]

    async def rotate(self, federation: Federation) -> None:
        """Put a new CA in the old one's place; who runs is restarted before the gate changes."""
        security = federation.spec.security
        secret = read_secret(security.ca_key) if security.ca_key is not None else None
        folder = Layout(self._home, federation.name).authority
        now = datetime.now(UTC)
        try:
            before = await asyncio.to_thread(Authority.load, folder, secret)
        except SecretUnused:  # the secret is for the new CA
            before = await asyncio.to_thread(Authority.load, folder, None)
        await asyncio.to_thread(before.rotate, now=now, days=security.ca_days, secret=secret)
        kept = [k.unit for k in self._store.units(federation.name).values()]
        nodes = [unit for unit in kept if unit.kind is Kind.SUPERNODE]
        await asyncio.to_thread(self._site_identities, federation, nodes)
        execs = [unit for unit in kept if unit.kind in (Kind.SERVER_EXEC, Kind.CLIENT_EXEC)]
        async with asyncio.TaskGroup() as group:
            for unit in (*nodes, *execs):
                group.create_task(self._supervisor.start(unit))

    async def end_rotation(self, federation: Federation) -> None:
        """Trust the new CA alone."""
        await asyncio.to_thread(self._authority(federation).drop_former)

    async def remove(self, federation: str, units: Collection[str]) -> None:
        """End the units; a site whose SuperNode goes is revoked and its key destroyed."""
        await self._supervisor.stop(federation, units)
        await self._revoke(
            federation, [u.partition("/")[0] for u in units if u.endswith(f"/{Kind.SUPERNODE}")]
        )

    async def admit(self, federation: str, sites: Collection[str]) -> None:
        """Let these sites in and no others: who was let in once and is not among them is shut out."""
        known = self.fingerprints(federation)
        await self._revoke(federation, [site for site in known if site not in sites])

    async def _revoke(self, federation: str, sites: Sequence[str]) -> None:
        layout = Layout(self._home, federation)
        roster = Roster(layout.roster)
        held = {site: fingerprint for site, fingerprint in roster.sites().items() if site in sites}
        if held:
            await self._flower.expel(federation, list(held.values()))
        for site in sites:
            roster.remove(site)
            for secret in (PRIVATE, PUBLIC, "server.key", "server.crt"):
                (layout.place(site) / secret).unlink(missing_ok=True)

    async def release(self, federation: str, units: Collection[str]) -> None:
        """End these units without revoking anything: they come back with other ports."""
        await self._supervisor.stop(federation, units, grace_s=1.0)

    async def destroy(self, federation: str, *, keep_data: bool) -> None:
        """End everything; without `keep_data` only the runs' results stay."""
        units = list(self._supervisor.observe(federation))
        hub = [name for name in units if name.startswith(f"{HUB}/")]
        # SuperNodes sign off at a SuperLink that still answers: they can come back at once.
        await self._supervisor.stop(federation, [n for n in units if n not in hub], grace_s=1.0)
        await self._supervisor.stop(federation, hub, grace_s=0.8)
        if not keep_data:
            await asyncio.to_thread(_clear, Layout(self._home, federation).root)

    async def certificates(self, federation: str) -> Sequence[CertificateStatus]:
        """Describe the CA, the gate's certificate and the sites'."""
        layout, now = Layout(self._home, federation), datetime.now(UTC)
        files = {"ca": layout.authority / "ca.crt", "gate": layout.place(HUB) / "server.crt"}
        sites = layout.root / "sites"
        if sites.is_dir():
            files |= {s.name: s / "server.crt" for s in sorted(sites.iterdir())}
        found = []
        for name, path in files.items():
            if path.exists():
                status = certificates.describe(path, now)
                found.append(
                    CertificateStatus(name, status.subject, status.not_after, status.days_left)
                )
        return found

    def fingerprints(self, federation: str) -> Mapping[str, str]:
        """Give the key that each site's name is bound to."""
        path = Layout(self._home, federation).roster
        return Roster(path).sites() if path.exists() else {}

    def run_places(self, federation: str) -> Mapping[str, Path]:
        """Say where the hub's and each site's executor keep their runs."""
        layout = Layout(self._home, federation)
        sites = sorted((layout.root / "sites").glob("*"), key=lambda path: natural(path.name))
        return {HUB: layout.runs(HUB), **{s.name: layout.runs(s.name) for s in sites}}

    async def end_tasks(self, federation: str, run_id: str) -> int:
        """End every process of the run, at the hub and at the sites; gives how many there were."""
        layout = Layout(self._home, federation)
        notes = [path for path in layout.root.glob("**/tasks/*") if _belongs(path, run_id)]
        found = [identify(int(path.name)) for path in notes]
        alive = {process for process in found if process is not None}
        await end_processes(alive)
        return len(alive)


def _belongs(note: Path, run_id: str) -> bool:
    try:
        return bool(json.loads(note.read_text())["run_id"] == run_id)
    except (OSError, ValueError, KeyError):
        return False


async def _answering(sighting: Present, layout: Layout, allotment: Allotment) -> Present:
    if sighting.health is not Health.READY:
        return sighting
    if sighting.kind is Kind.SUPERLINK:
        ready = is_answered(layout.superlink_socket)
    else:
        ready = await _accepts(allotment.ports.get("control", 0))
    return sighting if ready else replace(sighting, health=Health.STARTING)


async def _accepts(port: int) -> bool:
    try:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _clear(root: Path) -> None:
    """Remove keys, certificates and state; keep what the runs produced."""
    places = [root / HUB, *(root / "sites").glob("*")]
    for place in places:
        for entry in place.iterdir() if place.is_dir() else ():
            if entry.name != "runs":
                _remove(entry)
    for entry in root.iterdir() if root.is_dir() else ():
        if entry.name not in (HUB, "sites"):
            _remove(entry)
    for folder in sorted(root.rglob("*"), reverse=True):
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()
    if root.is_dir() and not any(root.iterdir()):
        root.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
