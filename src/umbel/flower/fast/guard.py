"""Knows which sources of Flower the fast ways were made for; with others they stay off.

Each way names the modules that it touches. A module whose source is not one of the known ones means
stock behaviour for that way, and `umbel doctor` names it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path

# Short hashes of the sources of 1.40.0 and 1.41.0, in this order where they differ.
KNOWN: dict[str, tuple[str, ...]] = {
    "flwr.superlink.routers.control.router": ("838a29220cd53847",),
    "flwr.superlink.dependencies.account": ("442e38d5424e179a",),
    "flwr.superlink.servicer.runtime.runtime_handlers": (
        "ca675f1016cb21e9",
        "3facf815e9360dd6",
    ),
    "flwr.supercore.object_store.sql_object_store": ("7f8942a607e4e0bc",),
    "flwr.supercore.state.schema.linkstate_models": ("8d5b62e2733b28de",),
    "flwr.supercore.state.schema.objectstore_models": (
        "78dcd31104e28e67",
        "7ea28218c356d85d",
    ),
    "flwr.superlink.cli.flower_superlink": ("53a0528b289cbb7b",),
    "flwr.superlink.main": ("3e94714b6f1433fd",),
    "flwr.superlink.routers.fleet.router": ("98ce9e07f1cb4814",),
    "flwr.superlink.routers.fleet.node_auth": ("8646e6bfd8e5b47d",),
    "flwr.superlink.grid.http_grid": ("0c33918af5016310",),
    "flwr.server.superlink.linkstate.sql_linkstate": ("13ffbda489594bf7",),
    "flwr.supercore.corestate.sql_corestate": ("984ff9d7e70ed601", "14f5c7e10a150cd2"),
    "flwr.supernode.cli.flower_supernode": ("4fda27bb459f3605", "e637b07a731536a6"),
    "flwr.supernode.start_client_internal": ("8d29efb3c94ae5c6", "d6342f743fdf768f"),
    "flwr.supernode.node_auth_http_interceptor": ("a4f3f51424039a14",),
    "flwr.supernode.fleet_http_client": ("9b09bd3e5237f2a9",),
    "flwr.superlink.servicer.fleet.fleet_handlers": ("117665fa865c30dc",),
    "flwr.supernode.servicer.runtime.runtime_handlers": ("133980ec53f15996", "841b531c097871ea"),
    "flwr.supercore.servicer.runtime.runtime_handlers": ("c85cb465bcf771b8", "64496f07ffcb4102"),
    "flwr.supernode.main": ("cad7e371678f766c",),
    "flwr.supernode.nodestate.in_memory_nodestate": ("44d7c354cd96b275", "b2d93c03aae06b07"),
    "flwr.supercore.object_store.in_memory_object_store": ("6bc131d53142ab0c",),
    "flwr.supercore.inflatable.inflatable_utils": ("077b26d921aa8638",),
    "flwr.supercore.inflatable.inflatable_protobuf_utils": ("aeac102e54a87609",),
    "flwr.supercore.protobuf.client": ("0bb91b4a9336b8cc",),
    "flwr.supercore.protobuf.translation": ("597e0d5afbba5011", "7ae0363b45548d07"),
    "flwr.supercore.routers.runtime.router": ("27e800bb377eeab4", "59bd7cd3edcc465c"),
    "flwr.supercore.dependencies.runtime": ("ab5843e0e5e319f1", "5c6ae7d095ab5743"),
    "flwr.supercore.dependencies.task": ("a28eae914ba22c4b",),
    "flwr.supercore.dependencies.superexec": ("4e5293a1c7ac1d8d",),
    "flwr.supercore.dependencies.version": ("3469721e89b9bf4c",),
    "flwr.supercore.sql_mixin": ("871b74395cd7be08",),
    "flwr.supercore.state.schema.corestate_models": ("07837225835cc1eb", "3a53f02ca8a2189a"),
    "flwr.supercore.state.schema.types": ("bcf639d2a9e2d098", "42a663a21cdb4779"),
    "httpcore._backends.sync": ("6e113877d88af549",),
    "uvicorn.server": ("7d7937fff1c17f58",),
    "flwr.supercore.error.http": ("9f6babdb38974e35",),
}


class Way(StrEnum):
    """What can be switched off by itself."""

    HOLD_LINK = "held answers of the SuperLink"
    HOLD_NODE = "held answers of the SuperNode"
    NAPS_NODE = "a SuperNode that waits for events"
    NAPS_GRID = "a ServerApp that waits for events"
    ENDED = "a SuperNode that gives up what nobody waits for"
    ORDER = "tasks of a run one after the other"
    ASSIGN = "tasks for who has their environment"
    LIGHT = "statements straight to SQLite"
    SHORTCUT = "hot routes past the web stack"
    STREAMS = "large bodies in large pieces"
    TICKS = "web servers that sleep when idle"
    PULSE = "pulls that spare heartbeats"
    SIGNATURES = "signatures once a second"
    BATCH = "objects in batches"


_LINK = (
    "flwr.superlink.cli.flower_superlink",
    "flwr.superlink.main",
    "flwr.server.superlink.linkstate.sql_linkstate",
    "flwr.supercore.corestate.sql_corestate",
    "flwr.superlink.servicer.runtime.runtime_handlers",
    "flwr.supercore.object_store.sql_object_store",
    "flwr.supercore.state.schema.linkstate_models",
    "flwr.supercore.state.schema.objectstore_models",
)
_SQL = (
    "flwr.server.superlink.linkstate.sql_linkstate",
    "flwr.supercore.corestate.sql_corestate",
    "flwr.supercore.object_store.sql_object_store",
    "flwr.supercore.sql_mixin",
    "flwr.supercore.state.schema.corestate_models",
    "flwr.supercore.state.schema.linkstate_models",
    "flwr.supercore.state.schema.objectstore_models",
    "flwr.supercore.state.schema.types",
)
_NODE = (
    "flwr.supernode.cli.flower_supernode",
    "flwr.supernode.main",
    "flwr.supernode.nodestate.in_memory_nodestate",
    "flwr.supercore.object_store.in_memory_object_store",
)
_ROUTES = (
    "flwr.superlink.main",
    "flwr.supernode.main",
    "flwr.superlink.routers.fleet.router",
    "flwr.superlink.routers.fleet.node_auth",
    "flwr.superlink.servicer.fleet.fleet_handlers",
    "flwr.supernode.servicer.runtime.runtime_handlers",
    "flwr.superlink.servicer.runtime.runtime_handlers",
    "flwr.superlink.routers.control.router",
    "flwr.superlink.dependencies.account",
    "flwr.supercore.protobuf.translation",
    "flwr.supercore.routers.runtime.router",
    "flwr.supercore.dependencies.runtime",
    "flwr.supercore.dependencies.task",
    "flwr.supercore.dependencies.superexec",
    "flwr.supercore.dependencies.version",
    "flwr.supercore.error.http",
)
_OBJECTS = (
    "flwr.supercore.inflatable.inflatable_utils",
    "flwr.supercore.inflatable.inflatable_protobuf_utils",
    "flwr.supercore.protobuf.client",
    "flwr.superlink.grid.http_grid",
    "flwr.supernode.start_client_internal",
)
TOUCHED: dict[Way, tuple[str, ...]] = {
    Way.HOLD_LINK: _LINK,
    Way.HOLD_NODE: _NODE,
    Way.NAPS_NODE: ("flwr.supernode.start_client_internal", *_NODE),
    Way.ENDED: ("flwr.supernode.start_client_internal", *_NODE),
    Way.NAPS_GRID: ("flwr.superlink.grid.http_grid",),
    Way.ORDER: (*_NODE, "flwr.supercore.routers.runtime.router"),
    Way.ASSIGN: (
        *_NODE,
        "flwr.supernode.servicer.runtime.runtime_handlers",
        "flwr.supercore.servicer.runtime.runtime_handlers",
        "flwr.supercore.protobuf.translation",
        "flwr.supercore.routers.runtime.router",
        "flwr.supercore.dependencies.runtime",
        "flwr.supercore.dependencies.superexec",
        "flwr.supercore.dependencies.version",
        "flwr.supercore.error.http",
    ),
    Way.LIGHT: _SQL,
    Way.SHORTCUT: _ROUTES,
    Way.STREAMS: ("httpcore._backends.sync",),
    Way.TICKS: ("uvicorn.server",),
    Way.PULSE: (
        "flwr.server.superlink.linkstate.sql_linkstate",
        "flwr.supernode.fleet_http_client",
        "flwr.supercore.protobuf.client",
    ),
    Way.SIGNATURES: (
        "flwr.superlink.routers.fleet.node_auth",
        "flwr.supernode.node_auth_http_interceptor",
    ),
    Way.BATCH: _OBJECTS,
}


def source_hash(module: str) -> str:
    """Name a module's source, without importing the module itself."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:16]


CANARY = "UMBEL_CANARY"  # a folder: each way that is really taken leaves its name there
_taken: set[Way] = set()


def took(way: Way) -> None:
    """Say that this way was taken: a shim that nobody calls any more must be noticed."""
    if way not in _taken:
        _taken.add(way)
        folder = os.environ.get(CANARY)
        if folder:
            with contextlib.suppress(OSError):
                (Path(folder) / way.name).touch()


@cache
def moved(way: Way) -> tuple[str, ...]:
    """List the modules of Flower that are not as this way expects them."""
    return tuple(name for name in TOUCHED[way] if source_hash(name) not in KNOWN[name])


def unmoved(way: Way) -> bool:
    """Whether Flower is as this way expects it."""
    return not moved(way)


def verdict_path() -> Path:
    """Say where a canary that died is noted, for all homes of this user."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "umbel" / "dead-canary"


def note_verdict(*, lived: bool) -> None:
    """Remember how the canary fared with these sources of Flower."""
    path = verdict_path()
    if lived:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_sources())


@cache
def distrusted() -> bool:
    """Whether a canary died with these sources of Flower."""
    try:
        return verdict_path().read_text() == _sources()
    except OSError:
        return False


def _sources() -> str:
    return hashlib.sha256("".join(map(source_hash, sorted(KNOWN))).encode()).hexdigest()


def open_to(way: Way) -> bool:
    """Whether this way may be taken."""
    return unmoved(way) and not distrusted()
