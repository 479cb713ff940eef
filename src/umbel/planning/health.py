"""Judges what was seen. The first thing that is wrong is named; the rest often follows from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from umbel.model.site import Verdict
from umbel.model.status import CertificateStatus, Condition, NodeSeen, SiteStatus
from umbel.model.unit import HUB, Health, Kind, Present, Sighting, Unit, Unknown

EXPIRES_SOON_DAYS = 7


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a judgement looks at. `nodes` is None when nobody could look."""

    wanted: Mapping[str, Unit]
    seen: Mapping[str, Sighting]
    nodes: Sequence[NodeSeen] | None
    nodes_why: str
    certificates: Sequence[CertificateStatus]
    fingerprints: Mapping[str, str]  # by site: the key that the site's name is bound to
    hindrances: Sequence[Condition] = ()  # what the target found in the way


Check = Callable[[World], Condition]


def hub_available(world: World) -> Condition:
    """The SuperLink, the gate and the ServerApp executor run."""
    for kind in (Kind.SUPERLINK, Kind.GATE, Kind.SERVER_EXEC):
        match world.seen.get(f"{HUB}/{kind}"):
            case None:
                return _no("HubAvailable", "NotStarted", f"{kind} is not there", "umbel up")
            case Unknown(why):
                return Condition("HubAvailable", "Unknown", "CannotLook", why)
            case Present(health=Health.READY):
                continue
            case Present(message=message, health=health):
                return _no("HubAvailable", f"{kind}-{health}", message or f"{kind} is {health}")
    return Condition("HubAvailable", "True", "Running", "SuperLink, gate and executor run")


def certificates_valid(world: World) -> Condition:
    """No certificate has ended or ends soon."""
    for certificate in world.certificates:
        if certificate.days_left < 0:
            message = f"{certificate.name} ended on {certificate.not_after}"
            return _no("CertificatesValid", "Expired", message, "umbel up renews it")
    soon = [c for c in world.certificates if c.days_left < EXPIRES_SOON_DAYS]
    if soon:
        names = ", ".join(f"{c.name} in {c.days_left} d" for c in soon)
        return Condition("CertificatesValid", "True", "ExpiresSoon", names, "umbel up renews it")
    return Condition("CertificatesValid", "True", "Valid", f"{len(world.certificates)} checked")


def sites_online(world: World) -> Condition:
    """Every chosen site's SuperNode is online at the SuperLink, with the key it is bound to."""
    sites = sorted({unit.site for unit in world.wanted.values()} - {HUB})
    if world.nodes is None:
        return Condition("SitesOnline", "Unknown", "CannotLook", world.nodes_why)
    online = online_sites(world)
    missing = [site for site in sites if site not in online]
    if missing:
        names = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")  # noqa: PLR2004
        message = f"{len(online)} of {len(sites)} online; not: {names}"
        return _no("SitesOnline", "SitesMissing", message, "umbel status -o wide, umbel doctor")
    return Condition("SitesOnline", "True", "AllOnline", f"{len(sites)} of {len(sites)} online")


CHECKS: tuple[Check, ...] = (hub_available, certificates_valid, sites_online)


def judge(world: World) -> tuple[Condition, ...]:
    """Give every condition, and Ready as their sum."""
    conditions = (*world.hindrances, *(check(world) for check in CHECKS))
    bad = next((c for c in conditions if c.status != "True"), None)
    if bad is None:
        ready = Condition("Ready", "True", "AllGood", "the federation takes runs")
    else:
        ready = Condition("Ready", bad.status, bad.reason, bad.message, bad.hint)
    return (ready, *conditions)


def phase(conditions: Sequence[Condition], *, progressing: bool) -> str:
    """Sum the conditions up in a word."""
    by_type = {condition.type: condition.status for condition in conditions}
    if by_type.get("Ready") == "True":
        return "Ready"
    if progressing:
        return "Progressing"
    if by_type.get("HubAvailable") == "False":
        return "Down"
    return "Unknown" if by_type.get("Ready") == "Unknown" else "Degraded"


def online_sites(world: World) -> dict[str, NodeSeen]:
    """Match nodes to sites by the key's fingerprint, never by name alone.

    A SuperNode that starts anew is not online, whatever the SuperLink still believes of it.
    """
    bound = world.fingerprints
    return {
        node.name: node
        for node in world.nodes or ()
        if node.status == "online"
        and bound.get(node.name) == node.fingerprint
        and not _is_starting(world, node.name)
    }


def _is_starting(world: World, site: str) -> bool:
    sighting = world.seen.get(f"{site}/{Kind.SUPERNODE}")
    return isinstance(sighting, Present) and sighting.health is Health.STARTING


def failing_sites(world: World) -> list[str]:
    """Say of each unit that does not come up what is wrong."""
    return [
        f"{name}: {sighting.message}"
        for name, sighting in world.seen.items()
        if isinstance(sighting, Present) and sighting.health is Health.FAILING
    ]


def site_statuses(
    world: World, verdicts: Sequence[Verdict], groups: Mapping[str, str], target: str
) -> tuple[SiteStatus, ...]:
    """Say of every site whether it is used and how it does."""
    nodes = _Nodes(
        online_sites(world).keys(), {n.fingerprint: n for n in reversed(world.nodes or ())}
    )
    return tuple(_site_status(world, nodes, v, groups.get(v.site, ""), target) for v in verdicts)


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The nodes of a world, found at once: a thousand sites look for theirs."""

    online: Collection[str]
    by_key: Mapping[str, NodeSeen]


def _site_status(
    world: World, nodes: _Nodes, verdict: Verdict, group: str, target: str
) -> SiteStatus:
    if not verdict.chosen:
        why = "; ".join(verdict.reasons)
        return SiteStatus(verdict.site, group, target, False, "not-chosen", message=why)
    state, message = _site_state(world, nodes, verdict.site)
    fingerprint = world.fingerprints.get(verdict.site, "")
    node = nodes.by_key.get(fingerprint)
    unit = world.wanted.get(f"{verdict.site}/{Kind.SUPERNODE}")
    config = unit.settings.get("node_config") if unit else None
    partition = config.get("partition-id") if isinstance(config, Mapping) else None
    return SiteStatus(
        name=verdict.site,
        group=group,
        target=target,
        chosen=True,
        state=state,
        partition_id=partition if isinstance(partition, int) else None,
        node_id=str(node.node_id) if node else "",
        fingerprint=fingerprint,
        message=message,
    )


def _site_state(world: World, nodes: _Nodes, site: str) -> tuple[str, str]:
    for kind in (Kind.SUPERNODE, Kind.CLIENT_EXEC):
        state = _unit_state(world.seen.get(f"{site}/{kind}"), kind)
        if state is not None:
            return state
    if world.nodes is None:
        return "unknown", world.nodes_why
    if site in nodes.online:
        return "online", ""
    return "offline", "its SuperNode has not reported to the SuperLink"


def _unit_state(sighting: Sighting | None, kind: Kind) -> tuple[str, str] | None:
    """Say what keeps a site from being online; nothing if it is not this unit."""
    match sighting:
        case None:
            return "starting", f"{kind} is not there yet"
        case Unknown(why):
            return "unknown", why
        case Present(health=Health.FAILING, message=message):
            return "failing", message
        case Present(health=Health.STARTING, message=message) if kind is Kind.SUPERNODE:
            return "starting", message or "its SuperNode is not connected yet"
        case _:
            return None


def _no(kind: str, reason: str, message: str, hint: str = "") -> Condition:
    return Condition(kind, "False", reason, message, hint)
