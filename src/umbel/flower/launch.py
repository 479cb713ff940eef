"""Starts SuperLink and SuperNode in the process that calls, which becomes one of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from umbel.sockets import private_listener

GRACEFUL_STOP_S = 1  # idle keep-alive clients would otherwise delay the end by half a minute


def preload() -> None:
    """Import what SuperLink, SuperNode and tasks need, so that forked children start at once."""
    for name in (
        "flwr.superlink.cli.flower_superlink",
        "flwr.superlink.main",
        "flwr.supernode.cli.flower_supernode",
        "flwr.supernode.main",
        "flwr.supernode.runtime.run_clientapp",
        "flwr.superlink.runtime.run_serverapp",
        "flwr.supercore.control",
        "flwr.supercore.superexec.run_superexec",
        "flwr.cli.build",
        "uvicorn.protocols.http.httptools_impl",
        "uvicorn.loops.uvloop",
        "uvicorn.lifespan.on",
        "httpcore",
        "h11",
    ):
        import_module(name)
    import_module("httpx").Client(verify=False).close()  # only loads lazy modules


def plain_logs() -> None:
    """Make Flower's own log lines carry a time and no colour."""
    logger = import_module("flwr.supercore.logger")
    logger.update_console_handler(level="INFO", timestamps=True, colored=False)


def superlink(argv: Sequence[str], listen: Path) -> None:
    """Run a SuperLink that listens on a Unix socket and on no port."""
    module: Any = import_module("flwr.superlink.cli.flower_superlink")
    module.uvicorn = _UnixUvicorn(module.uvicorn, listen)
    sys.argv = list(argv)
    plain_logs()
    module.flower_superlink()


def supernode(argv: Sequence[str]) -> None:
    """Run a SuperNode."""
    module = import_module("flwr.supernode.cli.flower_supernode")
    sys.argv = list(argv)
    plain_logs()
    module.flower_supernode()


class _UnixUvicorn:
    """Stands in for `uvicorn` in the SuperLink's module: same app, other listener."""

    def __init__(self, uvicorn: Any, listen: Path) -> None:
        self._uvicorn = uvicorn
        self._listen = listen

    def run(self, app: Any, log_config: Any, **_: Any) -> None:
        config = self._uvicorn.Config(
            app,
            log_config=log_config,
            access_log=False,
            timeout_graceful_shutdown=GRACEFUL_STOP_S,
            timeout_keep_alive=300,  # only the gate speaks here, and it closes what it drops
        )
        self._uvicorn.Server(config).run(sockets=[private_listener(self._listen)])
