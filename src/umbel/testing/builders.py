"""Nouns with everything filled in, so that a test names only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from umbel.model.federation import Federation
from umbel.model.status import NodeSeen, RunStatus
from umbel.model.unit import HUB, Health, Kind, Present, Unit
from umbel.planning.health import World


def federation(name: str = "lab", sites: Any = 2, **spec: Any) -> Federation:
    """Declare a federation with one local group; `spec` adds to the document or replaces in it."""
    groups = [{"name": "local", "sites": sites}]
    document = {"metadata": {"name": name}, "spec": {"groups": groups, **spec}}
    return Federation.model_validate(document)


def unit(name: str = f"{HUB}/{Kind.GATE}", owner: str = "lab", **settings: object) -> Unit:
    """Describe a unit by its name, SITE/KIND."""
    site, _, kind = name.partition("/")
    return Unit(owner, site, Kind(kind), settings)


def present(
    what: Unit, health: Health = Health.READY, *, message: str = "", restarts: int = 0
) -> Present:
    """Say that the unit was seen, exactly as it is wanted."""
    return Present(
        site=what.site,
        kind=what.kind,
        fingerprint=what.fingerprint,
        health=health,
        message=message,
        restarts=restarts,
        settings=what.settings,
    )


def node(site: str, *, status: str = "online", node_id: int = 1) -> NodeSeen:
    """Describe a SuperNode with the key that `FakeTarget` binds to the site's name."""
    return NodeSeen(node_id, site, status, fingerprint_of(site))


def fingerprint_of(site: str) -> str:
    """Name the key of a site, for worlds without keys."""
    return f"key-of-{site}"


def run(run_id: str = "1", status: str = "completed", **more: Any) -> RunStatus:
    """Describe a run."""
    return RunStatus(run_id=run_id, app="acme/app==1.0.0", status=status, **more)


def world(units: Mapping[str, Unit], **changes: Any) -> World:
    """Describe a world in which all units run and all their sites are online."""
    sites = sorted({u.site for u in units.values()} - {HUB})
    good = World(
        wanted=units,
        seen={name: present(u) for name, u in units.items()},
        nodes=[node(site, node_id=number) for number, site in enumerate(sites, start=1)],
        nodes_why="",
        certificates=(),
        fingerprints={site: fingerprint_of(site) for site in sites},
    )
    return replace(good, **changes)


def blank() -> World:
    """Describe a world in which there is nothing."""
    return world({})
