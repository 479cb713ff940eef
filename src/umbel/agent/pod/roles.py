"""What each container does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from umbel.agent.nursery_process import socket_path
from umbel.agent.pod import places as names
from umbel.agent.pod.places import Places
from umbel.agent.pod.waiting import until
from umbel.errors import UmbelError
from umbel.exec import bundle
from umbel.exec.environments import PLACE
from umbel.files import ensure_private_folder, write_private
from umbel.flower import commands
from umbel.identity import alone, tokens

LOOPBACK = "127.0.0.1"


def superlink(places: Places, _: Mapping[str, Any]) -> None:
    """Be the SuperLink; it listens on a socket that only this pod has."""
    for folder in (places.scratch, places.database.parent, places.superlink_socket.parent):
        ensure_private_folder(folder)
    tokens.ensure_secret(places.secret)
    # Flower wants a certificate even though it listens on no port: one for nobody.
    tls = alone.ensure(places.scratch, "superlink", [LOOPBACK], now=datetime.now(UTC))
    argv = commands.superlink_argv(
        tls=commands.Tls(tls.ca, tls.certificate, tls.key),
        database=places.database,
        superexec_secret=places.secret,
    )
    _quietly(places, places.trust)
    from umbel.flower import launch  # noqa: PLC0415  # after the environment is set

    list(launch.preload(launch.SUPERLINK_MODULES))
    launch.superlink(argv, places.superlink_socket, places.wake, sites=places.sites_of_apps)


def gate(places: Places, _: Mapping[str, Any]) -> None:
    """Be the gate; the Runtime door is for this pod alone."""
    for folder in (places.scratch, places.audit.parent, places.desk_socket.parent):
        ensure_private_folder(folder)
    ensure_private_folder(places.superlink_socket.parent)
    doors = (("fleet", "", names.FLEET_PORT), ("control", "", names.CONTROL_PORT))
    runtime = ("runtime", LOOPBACK, names.RUNTIME_PORT)
    secret = places.at(names.GATE)
    # The executor and what it runs trust this one alone: it outlives a change of the CA.
    ensure_private_folder(places.runtime_ca.parent)
    own = alone.ensure(places.scratch, "runtime", [LOOPBACK, "localhost"], now=datetime.now(UTC))
    write_private(places.runtime_ca, own.ca.read_bytes())
    config = {
        "doors": [{"api": a, "host": h or "::", "port": p} for a, h, p in (*doors, runtime)],
        "tls": {"certificate": str(secret / "server.crt"), "key": str(secret / "server.key")},
        "runtimeTls": {"certificate": str(own.certificate), "key": str(own.key)},
        "upstream": str(places.superlink_socket),
        "users": str(secret / "users.json"),
        "sites": str(places.roster),
        "audit": str(places.audit),
        "desk": str(places.desk_socket),
    }
    path = places.scratch / "gate.json"
    write_private(path, json.dumps(config))
    until(places.roster, places.roster.exists)  # the desk makes it
    os.execv(sys.executable, [sys.executable, "-m", "umbel.gate", str(path)])  # noqa: S606


def desk(places: Places, config: Mapping[str, Any]) -> None:
    """Be the desk: what the operator and people ask of this hub besides Flower's own."""
    for folder in (places.scratch, places.roster.parent, places.desk_socket.parent):
        ensure_private_folder(folder)
    if not places.roster.exists():
        write_private(places.roster, "{}")
    told = {
        "federation": config["federation"],
        "socket": str(places.desk_socket),
        "control": f"{LOOPBACK}:{names.CONTROL_PORT}",
        "ca": str(places.trust),
        "tokenFile": str(places.at(names.OWNER) / "token"),
        "roster": str(places.roster),
        "runs": str(places.runs),
        "status": str(places.status),
    }
    path = places.scratch / "desk.json"
    write_private(path, json.dumps(told))
    _quietly(places, places.trust)
    os.execv(sys.executable, [sys.executable, "-m", "umbel.server.desk", str(path)])  # noqa: S606


def executor(places: Places, config: Mapping[str, Any]) -> None:
    """Be the executor: apps run here, and nothing secret is in reach but what tasks need."""
    home = ensure_private_folder(places.scratch)
    tasks, runs = ensure_private_folder(home / "tasks"), ensure_private_folder(places.runs)
    ensure_private_folder(places.wake.parent)
    os.environ[PLACE] = str(ensure_private_folder(places.environments))
    os.environ["HOME"] = str(home)
    _quietly(places, None)
    from umbel.agent.pod.executor import run  # noqa: PLC0415  # after the environment is set

    settings = {
        "ca": str(places.runtime_ca),
        "secret": str(places.secret),
        "runs": str(runs),
        "tasks": str(tasks),
        "wake": str(places.wake),
        **_exec_settings(home, config),
    }
    run(home, settings, [places.runtime_ca, places.secret])


def app(places: Places, config: Mapping[str, Any]) -> None:
    """Be the executor of one app's environment; the SuperNode is in another pod."""
    home = ensure_private_folder(places.scratch)
    os.environ[PLACE] = str(ensure_private_folder(home / "environments"))
    os.environ["HOME"] = str(home)
    _quietly(places, None)
    from umbel.agent.pod.executor import run  # noqa: PLC0415  # after the environment is set

    given = places.at(names.RUNTIME)
    if keys := config.get("keys"):
        bundle.verify(places.at(names.BUNDLE), keys)
    settings = {
        "ca": str(given / "ca.crt"),
        "secret": str(given / "exec.secret"),
        "runs": str(ensure_private_folder(home / "runs")),
        "tasks": str(ensure_private_folder(home / "tasks")),
        "wake": str(places.reached.with_suffix(".wake")),
        "environment": config["environment"],
        **_exec_settings(home, config),
        "provides": not keys,  # signed wheels: then nothing else
    }
    run(home, settings, [])


def _exec_settings(home: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Give what every executor has, wherever its tasks come from."""
    told = ("site", "address", "warm", "poll_s", "task_timeout_s", "per_task", "has", "wheels")
    return {
        "flower_home": str(home / "flower"),
        "nursery": str(socket_path(home)),
        "parents": str(ensure_private_folder(home / "run" / "parents")),
        "drains": True,
        "provides": True,
        **{key: config[key] for key in told},
    }


def node(places: Places, config: Mapping[str, Any]) -> None:
    """Be the agent of a site, which keeps its SuperNode."""
    for folder in (places.scratch, places.ready.parent, places.secret.parent):
        ensure_private_folder(folder)
    _quietly(places, places.trust)
    from umbel.agent.pod.site import SiteAgent  # noqa: PLC0415  # after the environment is set

    SiteAgent(places, config).run()


def _quietly(places: Places, ca: Path | None) -> None:
    home = places.scratch / "flower"
    os.environ.update(commands.quiet(home) if ca is None else commands.environment(home, ca))


ROLES: Mapping[str, Callable[[Places, Mapping[str, Any]], None]] = {
    "superlink": superlink,
    "gate": gate,
    "desk": desk,
    "exec": executor,
    "app": app,
    "node": node,
}


def main() -> int:
    """Do what the role given as the only argument does, until it ends."""
    role = sys.argv[1]
    places = Places(Path(os.environ.get("UMBEL_POD_ROOT", "/")))
    os.umask(0o077)
    try:
        config = json.loads(places.config(role).read_text()) if places.config(role).exists() else {}
        ROLES[role](places, config)
    except UmbelError as error:
        sys.stderr.write(f"{role}: {error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
