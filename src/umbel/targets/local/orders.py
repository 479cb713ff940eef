"""From a unit to the order that the nursery carries out. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from umbel.agent.nursery_process import socket_path
from umbel.flower import commands
from umbel.identity.node_keys import PRIVATE
from umbel.model.unit import HUB, Kind, Unit
from umbel.targets.local.layout import Layout

POLL_S = 300.0  # executors are poked; this catches what was offered again


def order(home: Path, unit: Unit) -> dict[str, Any]:
    """Describe the process that the unit becomes."""
    layout = Layout(home, unit.federation)
    place = layout.place(unit.site)
    kind, settings = _program(layout, unit)
    ready = {"ready": settings["ready"]} if "ready" in settings else {}
    return {
        **ready,
        "kind": kind,
        "settings": settings,
        "log": str(layout.log(unit.site, unit.kind)),
        "exit": str(layout.exit_note(unit.site, unit.kind)),
        "env": _environment(unit, place, layout),
        "cwd": str(place),
        "title": f"{unit.kind}:{unit.site}",
    }


def _program(layout: Layout, unit: Unit) -> tuple[str, dict[str, Any]]:
    match unit.kind:
        case Kind.SUPERLINK:
            argv = commands.superlink_argv(
                tls=_tls(layout, HUB),
                database=layout.database,
                superexec_secret=layout.secret(HUB),
            )
            wake = str(layout.wake(HUB))
            return "superlink", {
                "argv": argv,
                "listen": str(layout.superlink_socket),
                "wake": wake,
            }
        case Kind.GATE:
            argv = (sys.executable, "-m", "umbel.gate", str(layout.gate_config))
            return "program", {"argv": argv}
        case Kind.SUPERNODE:
            wake = str(layout.wake(unit.site))
            ready = str(place_of_note(layout, unit))
            return "supernode", {
                "argv": _supernode(layout, unit),
                "wake": wake,
                "ready": ready,
            }
        case Kind.SERVER_EXEC | Kind.CLIENT_EXEC:
            return "exec", _exec(layout, unit)


def _environment(unit: Unit, place: Path, layout: Layout) -> dict[str, str]:
    """Executors are given our CA explicitly; what they build and run uses the user's own."""
    if unit.kind in (Kind.SERVER_EXEC, Kind.CLIENT_EXEC):
        return commands.quiet(place / "flower")
    return commands.environment(place / "flower", layout.bundle)


def place_of_note(layout: Layout, unit: Unit) -> Path:
    """Say where a unit notes that it is ready."""
    return layout.place(unit.site) / f"{unit.kind}.ready"


def _supernode(layout: Layout, unit: Unit) -> tuple[str, ...]:
    config = cast("Mapping[str, commands.Scalar]", unit.settings["node_config"])
    return commands.supernode_argv(
        fleet=str(unit.settings["fleet"]),
        ca=layout.bundle,
        key=layout.place(unit.site) / PRIVATE,
        runtime_port=cast("int", unit.settings["runtime_port"]),
        tls=_tls(layout, unit.site),
        superexec_secret=layout.secret(unit.site),
        node_config=config,
    )


def _exec(layout: Layout, unit: Unit) -> dict[str, Any]:
    place = layout.place(unit.site)
    return {
        "site": unit.site,
        "address": f"127.0.0.1:{unit.settings['runtime_port']}",
        "ca": str(layout.bundle),
        "secret": str(layout.secret(unit.site)),
        "flower_home": str(place / "flower"),
        "runs": str(layout.runs(unit.site)),
        "tasks": str(place / "tasks"),
        "warm": unit.settings["warm"],
        "wake": str(layout.wake(unit.site)),
        "poll_s": POLL_S,
        "task_timeout_s": unit.settings["task_timeout_s"],
        "per_task": unit.settings.get("per_task", {}),
        "has": unit.settings.get("has", {}),
        "wheels": unit.settings.get("wheels"),
        "nursery": str(socket_path(layout.home)),
        "parents": str(layout.parents),
    }


def _tls(layout: Layout, site: str) -> commands.Tls:
    place = layout.place(site)
    return commands.Tls(layout.bundle, place / "server.crt", place / "server.key")


def gate_config(layout: Layout, unit: Unit) -> dict[str, Any]:
    """Say what the gate is told."""
    ports = cast("Mapping[str, int]", unit.settings["ports"])
    hosts = {
        "fleet": unit.settings["listen"],
        "control": unit.settings["listen"],
        "runtime": "127.0.0.1",
    }
    hub = layout.place(HUB)
    return {
        "doors": [{"api": api, "host": host, "port": ports[api]} for api, host in hosts.items()],
        "tls": {"certificate": str(hub / "server.crt"), "key": str(hub / "server.key")},
        "upstream": str(layout.superlink_socket),
        "users": str(layout.gate_users),
        "sites": str(layout.roster),
        "audit": str(layout.audit),
    }
