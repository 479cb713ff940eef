"""Asks the SuperLink of this hub, through its gate, with Flower loaded in this very process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from umbel.agent.errands import ERRANDS
from umbel.errors import WorldError
from umbel.identity.node_keys import NodeKey
from umbel.model.status import NodeSeen, RunStatus
from umbel.model.unit import HUB
from umbel.server.desk.config import DeskConfig


class DeskUnequipped(WorldError):
    """The desk cannot read what it needs to speak to the gate."""

    code = "U247"

    def __init__(self, error: OSError) -> None:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        super().__init__(
            f"the desk cannot speak to the gate: {what}",
            hint="its token and the CA certificate come with the hub: wait until they are there, or "
            "apply the federation again",
        )


class DeskFlower:
    """Speaks as an admin. One errand of a kind at a time."""

    def __init__(self, config: DeskConfig) -> None:
        self._connection = {
            "address": config.control,
            "ca": str(config.ca),
            "token_file": str(config.token_file),
        }
        self._turns = {name: asyncio.Lock() for name in ERRANDS}

    async def _errand(self, name: str, **order: Any) -> Any:
        async with self._turns[name]:
            try:
                return await asyncio.to_thread(ERRANDS[name], {**self._connection, **order})
            except OSError as error:
                raise DeskUnequipped(error) from error

    async def nodes(self, federation: str) -> Sequence[NodeSeen]:  # noqa: ARG002
        """List the SuperNodes."""
        return [NodeSeen(**node) for node in await self._errand("nodes")]

    async def look(
        self,
        federation: str,  # noqa: ARG002
    ) -> tuple[Sequence[NodeSeen], Sequence[RunStatus]]:
        """List the SuperNodes and the runs."""
        seen = await self._errand("look")
        return [NodeSeen(**n) for n in seen["nodes"]], [RunStatus(**r) for r in seen["runs"]]

    async def runs(self, federation: str) -> Sequence[RunStatus]:  # noqa: ARG002
        """List the runs, newest first."""
        return [RunStatus(**run) for run in await self._errand("runs")]

    async def start(
        self,
        federation: str,  # noqa: ARG002
        app: Path,
        config: Mapping[str, Any],
    ) -> RunStatus:
        """Build and submit an app that is here."""
        return _pending(await self._errand("start", app=str(app), config=dict(config)))

    async def submit(self, fab: str, config: Mapping[str, Any]) -> RunStatus:
        """Submit an app that was built elsewhere; `fab` is its bundle in base64."""
        return _pending(await self._errand("submit", fab=fab, config=dict(config)))

    async def stop(self, federation: str, run_id: str) -> bool:  # noqa: ARG002
        """Stop a run; False when it had ended already."""
        return bool(await self._errand("stop", run_id=run_id))

    async def enrol(self, keys: Mapping[str, NodeKey]) -> Mapping[str, int]:
        """Register the sites' keys, all or none; gives the node ids."""
        ids: Mapping[str, int] = await self._errand("enrol", sites=_listed(keys))
        return ids

    async def enrol_each(
        self, keys: Mapping[str, NodeKey]
    ) -> tuple[Mapping[str, int], Mapping[str, str]]:
        """Register new keys one by one; gives the node ids, and who is refused and why."""
        told = await self._errand("enrol_each", sites=_listed(keys))
        return told["ids"], told["refused"]

    async def expel(self, fingerprints: Sequence[str]) -> Sequence[str]:
        """Shut these keys out for ever; gives the names of who was there."""
        gone: list[str] = await self._errand("expel", fingerprints=list(fingerprints))
        return gone


class HubFolder:
    """Knows what the hub's executor wrote; the sites keep theirs."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def run_places(self, federation: str) -> Mapping[str, Path]:  # noqa: ARG002
        """Say where the hub's executor keeps its runs."""
        return {HUB: self._runs}

    async def end_tasks(self, federation: str, run_id: str) -> int:  # noqa: ARG002
        """End nothing from here: an executor ends what the SuperLink has stopped by itself."""
        return 0


def _listed(keys: Mapping[str, NodeKey]) -> list[dict[str, str]]:
    return [
        {"name": n, "public_pem": k.public_pem.decode(), "fingerprint": k.fingerprint}
        for n, k in keys.items()
    ]


def _pending(made: Mapping[str, str]) -> RunStatus:
    return RunStatus(run_id=made["run_id"], app=made["app"], status="pending")
