"""`python -m umbel.gate CONFIG.json`: runs a gate until SIGTERM; SIGHUP reads files again."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from umbel.errors import UmbelError
from umbel.gate.config import read
from umbel.gate.server import Server, tell


async def _serve(config: Path) -> None:
    asyncio.get_running_loop().set_exception_handler(_quiet)
    server = Server(read(config))
    gc.freeze()
    await server.run()


def main(arguments: Sequence[str]) -> int:
    """Run the gate; give the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m umbel.gate CONFIG.json\n")
        return 2
    os.umask(0o077)
    _confine()
    try:
        uvloop.run(_serve(Path(arguments[0])))
    except UmbelError as error:
        tell(error)
        return error.exit_status
    return 0


def _confine() -> None:
    """Allow as many connections as the system does, and no core dump: keys are in memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _quiet(_: Any, context: dict[str, Any]) -> None:
    """Tell the kind of an unforeseen error; its text could hold what a client sent."""
    error = context.get("exception")
    sys.stderr.write(f"gate: {context.get('message')} ({type(error).__name__})\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
