"""The daemon's side of the nursery."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from umbel.agent.nursery_process import socket_path, start
from umbel.agent.processes import Process
from umbel.errors import Relayed, WorldError
from umbel.files import ensure_private_folder
from umbel.sockets import reachable

START_TIMEOUT_S = 60.0


class NurseryFailed(WorldError):
    """Flower could not be loaded or does not answer."""

    code = "U214"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the process that runs Flower failed: {why}",
            hint="umbel doctor checks the installation; the log is nursery.log in UMBEL_HOME",
        )


class NurseryClient:
    """Starts the nursery when it is not there, and talks to it."""

    def __init__(
        self,
        home: Path,
        daemon_command: list[str],
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._home = home
        self._socket = socket_path(home)
        self._daemon_command = daemon_command
        self._starting = asyncio.Lock()
        self._process = process

    async def ensure(self) -> None:
        """Have a nursery that watches over us."""
        ensure_private_folder(self._socket.parent)
        async with self._starting:
            if await self._watched():
                return
            await self._start()
            if not await self._watched():
                raise NurseryFailed("it does not answer")

    async def alive(self) -> bool:
        """Whether the nursery answers."""
        return self._socket.exists() and await self._watched()

    async def pid(self) -> list[int]:
        """Give the nursery's process id, if there is one."""
        try:
            answer = await self._ask({"op": "hello"}, timeout_s=2)
        except NurseryFailed:
            return []
        return [int(answer["pid"])]

    async def spawn(self, order: Mapping[str, Any]) -> Process:
        """Fork a unit."""
        answer = await self._ask({"op": "spawn", **order})
        return Process(int(answer["pid"]), int(answer["started"]))

    async def errand(self, name: str, order: Mapping[str, Any]) -> Any:
        """Make a short call into Flower."""
        answer = await self._ask({"op": "errand", "name": name, "order": order})
        if "problem" in answer:
            raise Relayed(answer["problem"])
        return answer["value"]

    async def dismiss(self) -> None:
        """Tell the nursery to end, and not to start us again."""
        await self._forget(stop=True)
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()  # still loading, or slow to leave

    async def release(self) -> None:
        """Tell the nursery to go on, but not to start us again."""
        await self._forget(stop=False)

    async def _forget(self, *, stop: bool) -> None:
        if self._socket.exists():
            with contextlib.suppress(NurseryFailed):
                await self._ask({"op": "forget", "stop": stop}, timeout_s=2)

    async def _watched(self) -> bool:
        try:
            await self._ask(
                {"op": "watch", "pid": os.getpid(), "command": self._daemon_command}, timeout_s=10
            )
        except NurseryFailed:
            return False
        return True

    async def _start(self) -> None:
        """Start it, or wait for the one that is loading."""
        if self._process is None or self._process.poll() is not None:
            self._process = start(self._home)
        deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
        while not self._socket.exists():
            code = self._process.poll() if self._process is not None else None
            if code is not None:
                raise NurseryFailed(f"it ended with {code}")
            if asyncio.get_running_loop().time() > deadline:
                raise NurseryFailed(f"not ready after {START_TIMEOUT_S:g} s")
            await asyncio.sleep(0.01)

    async def _ask(self, order: Mapping[str, Any], timeout_s: float = 120) -> dict[str, Any]:
        try:
            async with asyncio.timeout(timeout_s):
                with reachable(self._socket) as short:
                    reader, writer = await asyncio.open_unix_connection(short, limit=1 << 26)
                try:
                    writer.write(json.dumps(order).encode() + b"\n")
                    await writer.drain()
                    line = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError, ValueError) as error:
            raise NurseryFailed(str(error) or type(error).__name__) from error
        if not line:
            raise NurseryFailed("it hung up")
        answer: dict[str, Any] = json.loads(line)
        return answer
