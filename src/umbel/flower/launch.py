"""Starts SuperLink and SuperNode in the process that calls, which becomes one of them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from umbel.errors import WorldError
from umbel.flower import drain, ended
from umbel.flower.environments import Served
from umbel.flower.fast import (
    batch_client,
    claims,
    guard,
    large,
    light,
    memo,
    narrow,
    pages,
    pulse,
    ringing,
    signatures,
    silence,
    ticks,
)
from umbel.flower.fast.assign import Assign
from umbel.flower.fast.batch import Batch
from umbel.flower.fast.bells import Bells
from umbel.flower.fast.guard import Way
from umbel.flower.fast.hold import Hold
from umbel.flower.fast.naps import Naps
from umbel.flower.fast.order import InOrder
from umbel.flower.fast.poke import Poker
from umbel.flower.fast.shortcut import Shortcut, is_plain
from umbel.flower.tasks import plain_logs as plain_logs  # noqa: PLC0414  # also found here
from umbel.sockets import private_listener

GRACEFUL_STOP_S = 1  # idle keep-alive clients would otherwise delay the end by half a minute


# What a SuperLink needs comes first: it starts while the rest is loaded.
SUPERLINK_MODULES = (
    "flwr.superlink.cli.flower_superlink",
    "flwr.superlink.main",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.loops.uvloop",
    "uvicorn.lifespan.on",
)
OTHER_MODULES = (
    "flwr.supercore.control",
    "flwr.supernode.cli.flower_supernode",
    "flwr.supernode.main",
    "flwr.supernode.runtime.run_clientapp",
    "flwr.superlink.runtime.run_serverapp",
    "flwr.supercore.superexec.run_superexec",
    "flwr.cli.build",
    "httpcore",
    "h11",
    "umbel.flower.instruments",
    "umbel.flower.fast.batch_client",
)


class CannotAssign(WorldError):
    """Tasks cannot be given to the right executor with this Flower."""

    code = "U259"

    def __init__(self) -> None:
        moved = ", ".join(guard.moved(Way.ASSIGN)) or "a canary died"
        super().__init__(
            f"apps have environments of their own, but this Flower is another one: {moved}",
            hint="use an image with a Flower that Umbel knows, or declare no environments",
        )


def preload(modules: Iterable[str]) -> Iterator[None]:
    """Import modules, a step at a time, so that forked children start at once."""
    for name in modules:
        import_module(name)
        yield
    import_module("httpx").Client(verify=False).close()  # only loads lazy modules


def superlink(argv: Sequence[str], listen: Path, wake: Path, *, sites: Path | None = None) -> None:
    """Run a SuperLink that listens on a Unix socket and on no port, and wakes its executor.

    `sites` is a file that says, for apps with environments, which sites have them.
    """
    module: Any = import_module("flwr.superlink.cli.flower_superlink")
    pages.keep()
    silence.install()
    bells = Bells()
    if guard.open_to(Way.LIGHT):
        light.install()
        large.install()
    if guard.open_to(Way.TICKS):
        ticks.install()
    if guard.open_to(Way.SIGNATURES):
        signatures.remember_verified()
    if guard.open_to(Way.HOLD_LINK):
        ringing.superlink(bells, Poker(wake))
        claims.install()
        memo.install()
        if sites is not None:
            narrow.install(sites)
        if guard.open_to(Way.PULSE):
            pulse.count_pulls()
    module.uvicorn = _UnixUvicorn(module.uvicorn, listen, bells)
    sys.argv = list(argv)
    plain_logs()
    module.flower_superlink()


def supernode(
    argv: Sequence[str],
    wake: Path,
    ready: Path,
    *,
    drains: bool = False,
    environments: Mapping[str, Served] | None = None,
) -> None:
    """Run a SuperNode that wakes its executor, and notes its process id when it is connected.

    One that drains finishes its message before it ends, and notes its node id too. Tasks of apps
    that have an environment go to that environment's executors, which may be elsewhere.
    """
    if environments and not (guard.open_to(Way.ASSIGN) and guard.open_to(Way.HOLD_NODE)):
        raise CannotAssign
    module = import_module("flwr.supernode.cli.flower_supernode")
    pages.keep()
    silence.install()
    bells, changed = Bells(), threading.Event()

    def connected(node_id: int) -> None:
        if drains:
            ready.with_suffix(".node").write_text(str(node_id))
        ready.write_text(str(os.getpid()))

    ringing.connected(connected)
    if guard.open_to(Way.HOLD_NODE):
        tell = _serve(bells, Poker(wake), environments or {})
        ringing.supernode(bells, changed.set, tell)
    _wait_well(changed)
    if drains:
        drain.install()
        drain.take_over(ready.with_suffix(".node"))
    if guard.open_to(Way.TICKS):
        ticks.install()
    if guard.open_to(Way.SIGNATURES):
        signatures.sign_once_a_second()
    if guard.open_to(Way.PULSE):
        pulse.spare_heartbeats()
    batch_client.install()
    sys.argv = list(argv)
    plain_logs()
    module.flower_supernode()


def _wait_well(changed: threading.Event) -> None:
    """Let the SuperNode's loop wait for events, and not for what nobody wants any more."""
    loop: Any = import_module("flwr.supernode.start_client_internal")
    if guard.open_to(Way.NAPS_NODE):
        loop.time = Naps(changed, 3, Way.NAPS_NODE)
    if guard.open_to(Way.ENDED):
        ended.install()


def _serve(
    bells: Bells, poke: Callable[[], None], environments: Mapping[str, Served]
) -> Callable[[], None]:
    """Put our layers around the SuperNode's app; gives what to call when a task can be run."""
    served: Any = import_module("flwr.supernode.main")
    stock = served.create_app
    told: list[Callable[[], None]] = [poke]

    def create_app(**settings: Any) -> Any:
        made = stock(**settings)
        app = layered(made, bells, "SuperNode")
        if environments:
            app = Assign(app, made, bells, environments)
            told.append(app.arrived)
        return app

    def tell() -> None:
        for one in told:
            one()

    served.create_app = create_app
    return tell


def layered(app: Any, bells: Bells, component: str) -> Any:
    """Put our layers around Flower's app: hold, batches, the short way; each where it fits."""
    way = Way.HOLD_LINK if component == "SuperLink" else Way.HOLD_NODE
    if not guard.open_to(way):
        return app
    served = app
    if guard.open_to(Way.SHORTCUT) and is_plain(app):
        app = Batch(Shortcut(app, bells, component), bells)
    if component == "SuperNode" and guard.open_to(Way.ORDER):
        app = InOrder(app, served, bells)
    return Hold(app, bells, way=way)


class _UnixUvicorn:
    """Stands in for `uvicorn` in the SuperLink's module: same app, other listener."""

    def __init__(self, uvicorn: Any, listen: Path, bells: Bells) -> None:
        self._uvicorn = uvicorn
        self._listen = listen
        self._bells = bells

    def run(self, app: Any, log_config: Any, **_: Any) -> None:
        config = self._uvicorn.Config(
            layered(app, self._bells, "SuperLink"),
            log_config=log_config,
            access_log=False,
            timeout_graceful_shutdown=GRACEFUL_STOP_S,
            timeout_keep_alive=300,  # only the gate speaks here, and it closes what it drops
        )
        self._uvicorn.Server(config).run(sockets=[private_listener(self._listen)])
