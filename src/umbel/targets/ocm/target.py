"""Makes units exist on managed clusters. One target serves one federation."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from umbel.agent.pod import places
from umbel.errors import UmbelError, WorldError
from umbel.gate.refusals import HubUnreachable
from umbel.identity import node_keys
from umbel.identity.partitions import assign
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.federation import Federation, Group, Target
from umbel.model.kubernetes import ClusterValues
from umbel.model.plan import Step
from umbel.model.site import Verdict
from umbel.model.status import CertificateStatus, Condition, FederationStatus
from umbel.model.unit import HUB, Kind, Sighting, Unit, Unknown
from umbel.planning.render import users
from umbel.ports import Allotment, Store
from umbel.targets.ocm import (
    choosing,
    endpoints,
    foreseeing,
    hub,
    identity,
    leftovers,
    seeing,
    sites,
)
from umbel.targets.ocm.deciding import Deciding
from umbel.targets.ocm.desk import DeskClient
from umbel.targets.ocm.dismantling import dismantle
from umbel.targets.ocm.foreseeing import Foresight
from umbel.targets.ocm.names import SITE_GROUP, Names
from umbel.targets.ocm.obstacles import Obstacles, unused_values
from umbel.targets.ocm.releases import Releases
from umbel.targets.ocm.sending import Sending
from umbel.targets.ocm.settings import OcmSettings
from umbel.targets.ocm.upkeep import Upkeep
from umbel.targets.ocm.volume import Volume
from umbel.targets.ocm.writing import Writer, side_by_side

_LOOKED_AT = (kinds.STATEFUL_SET, kinds.POD, kinds.INSTALLED, kinds.WORK, kinds.DECISION)
log = logging.getLogger("umbel.ocm")
_HUB_LAST = {"StatefulSet"}
LOOK_AGAIN_S = 0.5
ADMIT_AGAIN_S = 600.0  # a SuperLink that lost its state learns its nodes again


class CannotSee(WorldError):
    """What is on the hub could not be looked at."""

    code = "U258"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the hub could not be looked at: {why}",
            hint="nothing was changed; docs/guides/ocm/install.md lists the rights that it takes",
        )


class OcmTarget:
    """What `kubectl get` shows of a federation, made so and read again."""

    def __init__(
        self, kube: Kube, cache: Cache, store: Store, names: Names, settings: OcmSettings
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._store = store
        self._names = names
        self._settings = settings
        self._writer = Writer(kube, cache, names.owner)
        self._obstacles = Obstacles(kube, cache, names, settings)
        self._releases = Releases(self._writer, cache, names)
        self._sending = Sending(kube, self._writer, cache, names)
        self._deciding = Deciding()
        self._placed: Mapping[str, tuple[Verdict, ...]] | None = None
        self.volume = Volume(kube, cache, names)
        self._upkeep = Upkeep(kube, cache, names, self.desk)
        self._identity: identity.Identity | None = None
        self._held = ""
        self._settled = False  # every site is well with what it should run
        self._bound: set[str] = set()
        self._admitted: tuple[dict[str, str], dict[str, list[str]]] | None = None
        self._refused: Mapping[str, str] = {}
        self._admit_again_s = 0.0
        self._desk: tuple[str, DeskClient] | None = None
        self._published: FederationStatus | None = None

    @property
    def name(self) -> Target:
        """What the document calls it."""
        return Target.OCM

    async def prepare(self, federation: Federation) -> None:
        """Have what decisions and units need: placements, identity, versions of what sites run."""
        self._placed = None  # from here to the next time, all see the same decisions
        await self._obstacles.look(federation)
        await self._assert_names_free(federation)
        placements = [choosing.placement(self._names, g) for g in federation.spec.groups]
        for group, placement in zip(federation.spec.groups, placements, strict=True):
            await self._bind(group)
            await self._writer.have(placement)
        await self._settle_identity(federation)
        parts = hub.objects(self._hub(federation))
        for content in parts:
            if content["kind"] not in _HUB_LAST:
                await self._writer.have(content)
        await self.volume.look(federation)
        await leftovers.clear(self._writer, self._cache, self._names, [*placements, *parts])
        await leftovers.forget(self._writer, self._cache, self._names, users(federation))
        await self._releases.publish([self._version(federation, g) for g in federation.spec.groups])
        await self._sending.settle(federation, self._settings.image)

    async def _assert_names_free(self, federation: Federation) -> None:
        """Before anything is made: no name of ours may be somebody else's."""
        if self._cache[kinds.STATEFUL_SET].get(self._names.hub, self._names.namespace):
            return
        wanted = hub.objects(hub.Hub(federation, self._names, "", ""))
        wanted += [choosing.placement(self._names, group) for group in federation.spec.groups]
        for content in wanted:
            if self._cache.has(kinds.kind_of(content)):
                await self._writer.assert_free(content)

    async def _bind(self, group: Group) -> None:
        """Bind sets that may be bound from here, where nobody has done it."""
        for cluster_set in choosing.cluster_sets(group):
            if self._settings.binds(cluster_set) and cluster_set not in self._bound:
                there = await self._kube.get(kinds.BINDING, cluster_set, self._names.namespace)
                if there is None:
                    await self._kube.create(choosing.binding(self._names, cluster_set))
                self._bound.add(cluster_set)

    async def _settle_identity(self, federation: Federation) -> None:
        held, link = self._secrets(federation), federation.spec.superlink
        known = self._identity
        hosts = sorted({*self._endpoints(federation).hosts, link.endpoint, *link.alternative_names})
        rotation = federation.metadata.annotations.get(identity.ROTATE, "")
        asked = f"{hosts} {rotation} {federation.spec.security.model_dump_json()}"
        mark = f"{identity.mark(held)} {asked}"
        fresh = known is not None and datetime.now(UTC) < known.good_until
        if known is not None and fresh and mark == self._held and not known.changing:
            return
        spread_s = identity.spread_for_s(held)
        spread = self._settled and spread_s > self._settings.spread_s
        wanted = identity.Wanted(federation, self._names, hosts, self._settings.system, spread)
        made, changed = identity.settle(wanted, held)
        for secret in changed:
            await self._writer.assert_free(secret)
            self._cache[kinds.SECRET].put(await self._kube.apply(secret))
        kept = identity.mark(self._secrets(federation))
        self._identity, self._held = made, f"{kept} {asked}"

    def _secrets(self, federation: Federation) -> identity.Secrets:
        kept, names = self._cache[kinds.SECRET], self._names
        people = [user.name for user in federation.spec.security.users]
        own = {
            user: found
            for user in ("owner", *people)
            if (found := identity.read(kept.get(names.user_secret(user), names.namespace)))
        }
        return identity.Secrets(
            identity.read(kept.get(names.authority_secret, self._settings.system)),
            identity.read(kept.get(names.gate_secret, names.namespace)),
            {user: found["token"] for user, found in own.items()},
            {user: found["ca.crt"] for user, found in own.items()},
        )

    @property
    def trust(self) -> identity.Identity:
        """The hub's identity, once it was prepared."""
        assert self._identity is not None  # noqa: S101  # prepare comes first
        return self._identity

    def _endpoints(self, federation: Federation) -> endpoints.Endpoints:
        service = self._cache[kinds.SERVICE].get(self._names.service, self._names.namespace)
        return endpoints.find(federation, self._names, service)

    def _hub(self, federation: Federation, fingerprints: str = "") -> hub.Hub:
        return hub.Hub(
            federation,
            self._names,
            self._settings.image,
            self.trust.bundle,
            fingerprints,
            self.volume.template(),
        )

    def _version(self, federation: Federation, group: Group) -> sites.Version:
        return sites.Version(
            federation, self._names, group, self._settings.image, self.trust.bundle
        )

    async def place(self, federation: Federation) -> Mapping[str, tuple[Verdict, ...]]:
        """Read which clusters OCM has chosen for each group; the first group has a cluster."""
        if self._placed is not None:
            return self._placed
        taken: set[str] = set()
        found: dict[str, tuple[Verdict, ...]] = {}
        for group in federation.spec.groups:
            verdicts = self._decided(group)
            found[group.name] = tuple(v for v in verdicts if v.site not in taken)
            taken |= {v.site for v in verdicts}
        self._placed = found
        return found

    async def predict(self, federation: Federation) -> list[Step]:
        """Decide as OCM will, where it has not decided by this document; gives what only this tells.

        From here on `place` gives what was foreseen. Nothing on the hub is changed.
        """
        self.volume.check(federation)
        ahead = Foresight(self._kube, self._cache, self._writer, self._names)
        self._placed = None
        self._placed = await ahead.groups(federation, await self.place(federation))
        self.foresee(federation, foreseeing.chosen(self._placed))
        sent = await ahead.environments(federation, self._placed, self._settings.image)
        return [*ahead.blind, *sent]

    def _decided(self, group: Group) -> tuple[Verdict, ...]:
        name, namespace = self._names.placement(group.name), self._names.namespace
        placement = self._cache[kinds.PLACEMENT].get(name, namespace) or {}
        running = [
            one["metadata"]["namespace"]
            for one in self._cache[kinds.INSTALLED].of(self._names.addon)
            if one["metadata"].get("labels", {}).get(SITE_GROUP) == group.name
            and not one["metadata"].get("deletionTimestamp")
        ]
        lists = self._cache[kinds.DECISION].of(f"{namespace}/{name}")
        chosen = placement.get("status", {}).get("numberOfSelectedClusters")
        return self._deciding.read(name, lists, chosen, running)

    @property
    def undecided_s(self) -> float:
        """Say when to look again because OCM was deciding; 0: when something changes."""
        return self._deciding.again_s

    async def allot(self, federation: Federation, sites: Sequence[str]) -> Allotment:
        """Give partition ids for good, and the fixed ports of pods."""
        made = self.foresee(federation, sites)
        kept = self._cache[kinds.CONFIG_MAP].get(self._names.allotment, self._names.namespace)
        partitions = dict(made.partitions)
        if kept is None or json.loads(kept["data"]["partitions"]) != partitions:
            data = {"partitions": json.dumps(partitions, sort_keys=True)}
            meta = self._names.metadata(
                self._names.allotment, "hub", namespace=self._names.namespace
            )
            content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            await self._writer.have(content)
        return made

    def foresee(self, federation: Federation, sites: Sequence[str]) -> Allotment:
        """Say what would be given; changes nothing on the hub."""
        kept = self._cache[kinds.CONFIG_MAP].get(self._names.allotment, self._names.namespace)
        known = json.loads((kept or {}).get("data", {}).get("partitions", "{}"))
        partitions = assign(sites, known)
        found = self._endpoints(federation)
        addresses = {"fleet": found.fleet, "control": found.control}  # empty while not known
        ports = {
            "fleet": places.FLEET_PORT,
            "control": places.CONTROL_PORT,
            "runtime": places.RUNTIME_PORT,
            **{f"site/{site}": places.NODE_RUNTIME_PORT for site in sites},
        }
        made = Allotment(ports, partitions, addresses)
        self._store.save_allotment(federation.name, made)
        return made

    async def observe(self, federation: str) -> Mapping[str, Sighting]:
        """Read what the hub's objects say of each unit."""
        del federation
        names = self._names
        pod = self._cache[kinds.POD].get(f"{names.hub}-0", names.namespace)
        whole = self._cache[kinds.STATEFUL_SET].get(names.hub, names.namespace)
        found = seeing.hub_sightings(whole, pod)
        works = seeing.by_cluster(self._cache[kinds.WORK].of(names.addon))
        for installed in self._cache[kinds.INSTALLED].of(names.addon):
            cluster = installed["metadata"]["namespace"]
            found |= seeing.site_sightings(
                cluster, installed, works.get(cluster, ()), self._releases.template
            )
        faults = self._cache.faults
        blind = [f"{k.name}: {faults[k.name]}" for k in _LOOKED_AT if k.name in faults]
        if blind and not found:
            raise CannotSee(blind[0])
        return {n: Unknown(blind[0]) for n in found} if blind else found

    def reports(self) -> dict[str, seeing.Report]:
        """Give what each site said last."""
        return seeing.reports_of(self._cache[kinds.WORK].of(self._names.addon))

    async def ensure(self, units: Sequence[Unit]) -> None:
        """Have these units; sites that run already change batch by batch."""
        federation = self._store.federations()[self._names.name]
        if any(unit.site == HUB for unit in units):
            wanted = {f"{HUB}/{k}": self._fingerprint(k) for k in seeing.CONTAINERS}
            wanted |= {unit.name: unit.fingerprint for unit in units if unit.site == HUB}
            text = seeing.fingerprints_text(wanted)
            await self._writer.have(hub.stateful_set(self._hub(federation, text)))
        by_site: dict[str, list[Unit]] = {}
        for unit in units:
            if unit.site != HUB:
                by_site.setdefault(unit.site, []).append(unit)
        if by_site and not self._endpoints(federation).missing:
            values = {site: self._values(federation, own) for site, own in by_site.items()}
            prints = {
                site: seeing.fingerprints_text({u.name: u.fingerprint for u in own})
                for site, own in by_site.items()
            }
            await self._releases.give(federation, values, prints, await self.place(federation))

    def _fingerprint(self, kind: Kind) -> str:
        whole = self._cache[kinds.STATEFUL_SET].get(self._names.hub, self._names.namespace)
        return seeing.fingerprints_of(whole).get(f"{HUB}/{kind}", "") if whole else ""

    def _values(self, federation: Federation, units: Sequence[Unit]) -> sites.SiteValues:
        node = next(unit for unit in units if unit.kind is Kind.SUPERNODE)
        group = next(g for g in federation.spec.groups if g.name == node.settings["group"])
        version = self._version(federation, group)
        own = version.settings.clusters.get(node.site, ClusterValues())
        return sites.SiteValues(
            names=self._names,
            cluster=node.site,
            group=group.name,
            node=sites.node_settings(node),
            settings=version.settings,
            data_path=own.host_path or group.data.host_path or "",
            template=self._releases.template(group.name),
            own=own,
        )

    async def remove(self, federation: str, units: Collection[str]) -> None:
        """Take the add-on off these clusters; a SuperNode finishes its message before it goes."""
        del federation
        there, addon = self._cache[kinds.INSTALLED], self._names.addon
        clusters = sorted({unit.partition("/")[0] for unit in units} - {HUB})
        found = [one for c in clusters if (one := there.get(addon, c)) is not None]
        await side_by_side(lambda one: self._writer.gone(kinds.INSTALLED, one), found)

    async def admit(self, federation: str, sites: Collection[str]) -> None:
        """Let in exactly the chosen sites, and those that still finish their message."""
        del federation
        reports = self.reports()
        leaving = reports.keys() - set(sites)  # their works are there until they have ended
        keys = {
            site: report.public_key
            for site, report in reports.items()
            if report.public_key and (site in sites or site in leaving)
        }
        now_s, apps = time.monotonic(), self._sending.sites()
        if (keys, apps) == self._admitted and now_s < self._admit_again_s:
            return
        try:
            told = await self.desk().put_sites(keys, apps)
        except UmbelError as error:  # the hub may be starting: the next look tries again
            log.debug("%s: %s", self._names.owner, error)
        else:
            self._admitted, self._refused = (keys, apps), told.refused
            self._admit_again_s = now_s + ADMIT_AGAIN_S

    def versioned(self, status: FederationStatus) -> FederationStatus:
        """Add what each site says that it runs."""
        said = {cluster: report.version for cluster, report in self.reports().items()}
        sites = tuple(replace(s, version=said.get(s.name, "")) for s in status.sites)
        return replace(status, sites=sites)

    @property
    def rollout(self) -> Object:
        """Say how far a change is on its way to the sites; empty when none is."""
        return self._releases.progress

    async def publish(self, status: FederationStatus) -> None:
        """Leave the status at the desk, for people who have no account on the hub."""
        used = [site for site in status.sites if site.chosen]
        self._releases.online = frozenset(s.name for s in used if s.state == "online")
        self._settled = bool(used) and self._releases.settled([site.name for site in used])
        await self._releases.tidy()
        if status == self._published:
            return
        try:
            await self.desk().put_status(status)
        except UmbelError as error:
            log.debug("%s: %s", self._names.owner, error)
        else:
            self._published = status

    def desk(self) -> DeskClient:
        """Give a client of the hub's desk, with the trust of now, if its pod has begun to run."""
        known = self._store.federations()[self._names.name]
        found = self._endpoints(known)
        inside = f"{self._names.service_hosts[0]}:{places.CONTROL_PORT}"
        address = inside if self._settings.dial == "service" else found.control
        pod = self._cache[kinds.POD].get(f"{self._names.hub}-0", self._names.namespace) or {}
        if pod.get("status", {}).get("phase", "Pending") == "Pending":  # nobody waits in vain
            raise HubUnreachable(address, "its pod does not run yet")
        mark = f"{address} {self._held}"
        if self._desk is None or self._desk[0] != mark:
            trust = self.trust
            client = DeskClient(
                address, trust.bundle.encode(), trust.owner_token, federation=self._names.name
            )
            self._desk = (mark, client)
        return self._desk[1]

    async def tend(self, federation: str) -> None:
        """Bring a changed hub into force, if this is the moment for it."""
        del federation
        await self._upkeep.look()

    async def hindrances(self, federation: str) -> Sequence[Condition]:
        """Give what is in the way, each with what to do about it."""
        known = self._store.federations().get(federation)
        if known is None:
            return ()
        found = [*self._obstacles.found, *self._releases.hindrances, *self._upkeep.found]
        found += [*self.volume.found, *unused_values(known, self._placed or {})]
        found += self._sending.conditions()
        if self._identity is not None and self._identity.changing:
            words = self._identity.changing
            found.append(Condition("AuthorityCurrent", "True", "Changing", words))
        if (missing := self._endpoints(known).missing) is not None:
            found.append(missing)
        again = f"a new key: delete Secret umbel-site in {self._names.addon} there, and its pod"
        for site, why in sorted(self._refused.items()):
            found.append(Condition("KeysAdmitted", "False", "KeyRefused", f"{site}: {why}", again))
        return found

    async def certificates(self, federation: str) -> Sequence[CertificateStatus]:
        """Describe the CA and the gate's certificate."""
        del federation
        return self._identity.certificates if self._identity else ()

    def fingerprints(self, federation: str) -> Mapping[str, str]:
        """Give the key of each site, as its own cluster reported it."""
        del federation
        keys = {site: report.public_key for site, report in self.reports().items()}
        found = {site: _fingerprint(key) for site, key in keys.items() if key}
        return {site: value for site, value in found.items() if value}

    async def lost_ports(self, federation: str) -> Sequence[str]:
        """Name units without a port: pods have their own."""
        del federation
        return ()

    async def release(self, federation: str, units: Collection[str]) -> None:
        """End units that come back with other ports: pods never need to."""

    async def renew(self, federation: Federation) -> Sequence[str]:
        """Renew what has ended or ends soon."""
        await self.prepare(federation)
        return ()

    async def dismantle(self, *, keep_data: bool) -> str:
        """Take apart what can be taken apart now; gives what is still waited for."""
        return await dismantle(self._writer, self._cache, self._names, keep_data=keep_data)

    async def destroy(self, federation: str, *, keep_data: bool) -> None:
        """Take everything apart; sites finish their message first."""
        del federation
        while await self.dismantle(keep_data=keep_data):  # noqa: ASYNC110  # others do the work
            await asyncio.sleep(LOOK_AGAIN_S)

    async def rotate(self, federation: Federation) -> None:
        """Do nothing at once: the annotation on the document asks for it, looks take the steps."""

    async def end_rotation(self, federation: Federation) -> None:
        """Do nothing at once: the old CA is dropped when every site trusts the new one."""


@lru_cache(maxsize=4096)
def _fingerprint(public_key: str) -> str:
    try:
        return node_keys.fingerprint(public_key.encode())
    except UmbelError:
        return ""
