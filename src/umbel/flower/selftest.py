"""Compares what we know of Flower with the installed package. `python -m` prints what differs.

Flower moves: two of three modules we use are its own affair. A finding here names what moved,
before a federation fails for it.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from umbel.flower import commands, routes, versions
from umbel.flower.fast import guard
from umbel.flower.routes import Api

_PARSERS = {
    "flower-superlink": ("flwr.superlink.cli.flower_superlink", "_parse_args_run_superlink"),
    "flower-supernode": ("flwr.supernode.cli.flower_supernode", "_parse_args_run_supernode"),
}
_ROUTERS: Mapping[Api, tuple[str, ...]] = {
    Api.FLEET: ("flwr.superlink.routers.fleet.router",),
    Api.CONTROL: ("flwr.superlink.routers.control.router",),
    Api.RUNTIME: (
        "flwr.supercore.routers.runtime.router",
        "flwr.supercore.routers.runtime.responses",
    ),
}


@dataclass(frozen=True, slots=True)
class Use:
    """Something of Flower that we call or wrap, and the arguments by which we do."""

    module: str
    name: str
    arguments: tuple[str, ...] = ()


USES: tuple[Use, ...] = (
    Use("flwr.superlink.cli.flower_superlink", "flower_superlink"),
    Use("flwr.superlink.cli.flower_superlink", "uvicorn.run", ("app", "log_config")),
    Use("flwr.supernode.cli.flower_supernode", "flower_supernode"),
    Use(
        "flwr.supernode.runtime.run_clientapp",
        "run_clientapp",
        ("runtime_api_address", "token", "insecure", "certificates"),
    ),
    Use(
        "flwr.superlink.runtime.run_serverapp",
        "run_serverapp",
        ("runtime_api_address", "log_queue", "token", "insecure", "certificates"),
    ),
    Use(
        "flwr.serverapp.strategy.strategy",
        "Strategy.start",
        ("self", "grid", "initial_arrays", "num_rounds", "evaluate_fn"),
    ),
    Use("flwr.serverapp.strategy.strategy", "Strategy.configure_train", ("server_round",)),
    Use(
        "flwr.serverapp.strategy.strategy", "Strategy.aggregate_train", ("server_round", "replies")
    ),
    Use(
        "flwr.serverapp.strategy.strategy",
        "Strategy.aggregate_evaluate",
        ("server_round", "replies"),
    ),
    Use("flwr.server.server", "Server.fit", ("self", "num_rounds", "timeout")),
    Use("flwr.server.server", "Server.evaluate_round", ("self", "server_round", "timeout")),
    Use("flwr.superlink.grid.http_grid", "HttpGrid.send_and_receive", ("messages", "timeout")),
    Use("flwr.superlink.grid.http_grid", "HttpGrid.get_nodes"),
    Use(
        "flwr.superlink.grid.inmemory_grid",
        "InMemoryGrid.send_and_receive",
        ("messages", "timeout"),
    ),
    Use(
        "flwr.supercore.control",
        "ControlHttpClient.from_server_address",
        ("insecure", "root_certificates", "interceptors"),
    ),
    *(
        Use("flwr.supercore.control", f"ControlHttpClient.{call}")
        for call in (
            "ListNodes",
            "RegisterNode",
            "UnregisterNode",
            "ListRuns",
            "StartRun",
            "StopRun",
        )
    ),
    Use(
        "flwr.supercore.runtime",
        "RuntimeHttpClient.from_server_address",
        ("server_address", "insecure", "root_certificates", "interceptors"),
    ),
    *(
        Use("flwr.supercore.runtime", f"RuntimeHttpClient.{call}")
        for call in ("AcquireTask", "PullTaskInput", "PushTaskOutput", "SendTaskHeartbeat")
    ),
    *(
        Use(f"flwr.{module}", name)
        for module in ("supernode.runtime.run_clientapp", "superlink.runtime.run_serverapp")
        for name in ("install_from_fab", "HeartbeatSender._run")
    ),
    Use("flwr.supernode.runtime.run_clientapp", "get_load_client_app_fn"),
    Use("flwr.superlink.runtime.run_serverapp", "run_"),
    Use("flwr.supercore.interceptors", "RuntimeTokenHttpInterceptor", ("token",)),
    Use(
        "flwr.supercore.interceptors",
        "SuperExecAuthHttpInterceptor",
        ("master_secret", "protected_methods"),
    ),
    Use("flwr.supercore.interceptors", "RuntimeVersionHttpInterceptor", ("component_name",)),
    *(
        Use("flwr.server.superlink.linkstate.sql_linkstate", f"SqlLinkState.{method}")
        for method in ("store_message_and_object_tree", "store_object", "create_task", "create_run")
    ),
    Use("flwr.supernode.nodestate.in_memory_nodestate", "InMemoryNodeState.store_message"),
    Use("flwr.supernode.nodestate.in_memory_nodestate", "InMemoryNodeState.set_node_id"),
    Use("flwr.supercore.object_store.in_memory_object_store", "InMemoryObjectStore.put"),
    Use("flwr.supernode.main", "create_app"),
    Use("flwr.supernode.start_client_internal", "time.sleep"),
    Use("flwr.supercore.logger", "update_console_handler", ("level", "timestamps", "colored")),
    Use("flwr.supercore.logger", "mirror_output_to_queue"),
    Use("flwr.supercore.logger", "restore_output"),
    Use("flwr.cli.build", "build_fab_from_disk"),
    Use("flwr.cli.config_utils", "get_fab_metadata"),
    Use("flwr.cli.install", "install_from_fab", ("skip_prompt",)),
    Use(
        "flwr.simulation.run_simulation",
        "_run_simulation",
        (
            *("server_app_attr", "client_app_attr", "num_supernodes", "backend_config", "app_dir"),
            *("run", "server_app_context", "is_app", "exit_event"),
        ),
    ),
)


def mismatches() -> Iterator[str]:
    """Say in a sentence each what is not as we know it."""
    known = versions.lookup(versions.installed())
    yield from missing_flags("flower-superlink", known.superlink_flags)
    yield from missing_flags("flower-supernode", known.supernode_flags)
    for api in Api:
        yield from missing_routes(api, routes.paths(api, known.minor))
    for use in USES:
        yield from misfit(use)
    yield from phones_home()
    for way in guard.Way:
        for module in guard.moved(way):
            yield f"{module} has changed: Flower's own way is taken instead of {way}"


def missing_flags(program: str, flags: frozenset[str]) -> Iterator[str]:
    """Name the flags that the program's own parser does not take."""
    module, name = _PARSERS[program]
    parser: argparse.ArgumentParser | None = _find(module, name, call=True)
    if parser is None:
        yield f"{module} has no {name}"
        return
    taken = {option for action in parser._actions for option in action.option_strings}  # noqa: SLF001  # argparse has no other way
    yield from (f"{program} has no {flag}" for flag in sorted(flags - taken))


def missing_routes(api: Api, paths: frozenset[str]) -> Iterator[str]:
    """Name the routes that Flower's routers do not have."""
    there: set[str] = set()
    for name in _ROUTERS[api]:
        router = _find(name, "router")
        if router is None:
            yield f"{name} has no router"
            return
        for route in router.routes:
            path = str(route.path)
            there.add(path if path.startswith("/v1/") else f"/v1/{api}{path}")
    yield from (f"there is no route {path}" for path in sorted(paths - there))


def misfit(use: Use) -> Iterator[str]:
    """Say whether it is gone, or does not take the arguments that we give."""
    found = _find(use.module, use.name)
    if found is None:
        yield f"{use.module} has no {use.name}"
        return
    if not use.arguments:
        return
    taken = inspect.signature(found).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values()):
        return
    lacking = [name for name in use.arguments if name not in taken]
    if lacking:
        yield f"{use.name} of {use.module} does not take {', '.join(lacking)}"


def phones_home() -> Iterator[str]:
    """Say whether Flower calls somebody although we tell it not to."""
    if _find("flwr.supercore.telemetry", "FLWR_TELEMETRY_ENABLED") != "0":
        yield "FLWR_TELEMETRY_ENABLED=0 does not switch telemetry off"
    check = _find("flwr.supercore.update_check", "warn_if_flwr_update_available")
    if check is not None:
        before = threading.active_count()
        check()
        if threading.active_count() != before:
            yield "FLWR_DISABLE_UPDATE_CHECK=1 does not switch the update check off"


def _find(module: str, path: str, *, call: bool = False) -> Any:
    try:
        found: Any = import_module(module)
    except ImportError:
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found() if call and found is not None else found


def main() -> None:
    """Print the differences as a list of JSON. Flower gets the environment that a unit has."""
    with tempfile.TemporaryDirectory(prefix="umbel-") as folder:
        os.environ.update(commands.quiet(Path(folder)))
        found = list(mismatches())
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
