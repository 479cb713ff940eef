"""What the daemon does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
from pathlib import Path

from umbel.agent.log_files import trim
from umbel.agent.processes import identify
from umbel.agent.supervisor import until_ended
from umbel.errors import UmbelError
from umbel.server.api import Api
from umbel.server.quiet import quiet_server
from umbel.sockets import private_listener
from umbel.wiring import House, build_house

SOCKET = "umbel.sock"
MAINTENANCE_S = 3600.0
NURSERY_PAUSE_S = 1.0
PORT_LOOK_S = 5.0
log = logging.getLogger("umbel.daemon")


def socket_path(home: Path) -> Path:
    """Say where the daemon of this home listens."""
    return home / "run" / SOCKET


class Daemon:
    """Adopts what runs, serves the API, renews certificates; ends when there is nothing to keep."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._leaving = asyncio.Event()

    async def run(self) -> None:
        """Serve until the last federation is gone, or until told to end."""
        house = self._house
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leaving.set)
        known = house.engine.known()
        for name in known:
            house.supervisor.adopt(name)
        server = quiet_server(Api(house, self._leaving.set).app())
        listener = private_listener(socket_path(house.home))
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[listener]))
            watching = group.create_task(self._watch_nursery())
            upkeep = group.create_task(self._maintain())
            healing = group.create_task(self._heal_ports())
            await self._leaving.wait()
            server.should_exit = True
            await serving
            listener.close()
            for task in (watching, upkeep, healing):
                task.cancel()
        await self._leave()

    async def _leave(self) -> None:
        """Told to end with federations declared, we leave them running."""
        await self._house.supervisor.close()
        if not self._house.engine.known():
            await self._house.nursery.dismiss()
        else:
            await self._house.nursery.release()
        left = bool(self._house.engine.known())
        self._house.store.close()
        if not left:  # with federations left, the socket tells the next command to start us again
            socket_path(self._house.home).unlink(missing_ok=True)

    async def _watch_nursery(self) -> None:
        """Start the nursery again when it was killed, before somebody needs it."""
        while True:
            if self._house.engine.known():
                with contextlib.suppress(UmbelError):
                    await self._house.nursery.ensure()
            for pid in await self._house.nursery.pid():
                if (process := identify(pid)) is not None:
                    await until_ended(process)
            await asyncio.sleep(NURSERY_PAUSE_S)

    async def _heal_ports(self) -> None:
        """Give other ports to units whose own were taken while they were dead."""
        while True:
            await asyncio.sleep(PORT_LOOK_S)
            for name, federation in self._house.engine.known().items():
                if not await self._house.target.lost_ports(name):
                    continue
                try:
                    await self._house.engine.apply(federation, log.info)
                except UmbelError as error:
                    log.warning("ports of %s: %s", name, error)

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTENANCE_S)
            await asyncio.to_thread(trim, self._house.home / "federations")
            for federation in self._house.engine.known().values():
                try:
                    sites = await self._house.target.renew(federation)
                except UmbelError as error:
                    log.warning("renewal of %s: %s", federation.name, error)
                else:
                    if sites:
                        log.info("renewed certificates of %s: %s", federation.name, sites)


async def serve(home: Path, nursery: subprocess.Popen[bytes] | None) -> None:
    """Be the daemon of this home; `nursery` is loading Flower meanwhile."""
    await Daemon(build_house(home, nursery)).run()
