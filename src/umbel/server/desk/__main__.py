"""`python -m umbel.server.desk CONFIG.json`: runs a desk until SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from umbel.errors import UmbelError
from umbel.files import ensure_private_folder
from umbel.flower import control
from umbel.server.desk.api import DeskApi
from umbel.server.desk.config import DeskConfig, read
from umbel.server.desk.flower import DeskFlower
from umbel.server.quiet import quiet_server
from umbel.sockets import private_listener


async def serve(config: DeskConfig) -> None:
    """Answer until told to end. The socket appears when the desk is ready."""
    control.load()
    for folder in {config.socket.parent, config.status.parent}:
        ensure_private_folder(folder)
    server = quiet_server(DeskApi(config, DeskFlower(config)).app())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, setattr, server, "should_exit", True)
    with private_listener(config.socket) as listener:
        sys.stdout.write(f"desk {config.federation} {config.socket}\n")
        sys.stdout.flush()
        await server.serve(sockets=[listener])
    config.socket.unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Run the desk; give the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m umbel.server.desk CONFIG.json\n")
        return 2
    os.umask(0o077)
    try:
        asyncio.run(serve(read(Path(arguments[0]))))
    except UmbelError as error:
        sys.stderr.write(f"{error}. Hint: {error.hint}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
