"""Asks the SuperLinks of this machine, through their gates, by the nursery's children."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from umbel.agent.nursery_client import NurseryClient
from umbel.errors import UmbelError
from umbel.identity.node_keys import PRIVATE, NodeKey
from umbel.identity.roster import Roster
from umbel.identity.tokens import path_of
from umbel.model.federation import OWNER
from umbel.model.status import NodeSeen, RunStatus
from umbel.model.unit import Unit
from umbel.ports import Store
from umbel.targets.local.layout import Layout


class LocalFlower:
    """Speaks as the owner."""

    def __init__(self, home: Path, store: Store, nursery: NurseryClient) -> None:
        self._home = home
        self._store = store
        self._nursery = nursery

    async def _errand(self, name: str, federation: str, **order: Any) -> Any:
        layout = Layout(self._home, federation)
        port = self._store.allotment(federation).ports.get("control", 0)
        connection = {
            "address": f"127.0.0.1:{port}",
            "ca": str(layout.bundle),
            "token_file": str(path_of(layout.tokens, OWNER)),
        }
        await self._nursery.ensure()  # it may have been killed since
        return await self._nursery.errand(name, {**connection, **order})

    async def nodes(self, federation: str) -> Sequence[NodeSeen]:
        """List the SuperNodes."""
        return [NodeSeen(**node) for node in await self._errand("nodes", federation)]

    async def look(self, federation: str) -> tuple[Sequence[NodeSeen], Sequence[RunStatus]]:
        """List the SuperNodes and the runs."""
        seen = await self._errand("look", federation)
        return [NodeSeen(**n) for n in seen["nodes"]], [RunStatus(**r) for r in seen["runs"]]

    async def runs(self, federation: str) -> Sequence[RunStatus]:
        """List the runs, newest first."""
        return [RunStatus(**run) for run in await self._errand("runs", federation)]

    async def start(self, federation: str, app: Path, config: Mapping[str, Any]) -> RunStatus:
        """Build and submit an app."""
        made = await self._errand("start", federation, app=str(app), config=dict(config))
        return RunStatus(run_id=made["run_id"], app=made["app"], status="pending")

    async def stop(self, federation: str, run_id: str) -> bool:
        """Stop a run; False when it had ended already."""
        return bool(await self._errand("stop", federation, run_id=run_id))

    async def enrol(self, federation: str, keys: Mapping[str, NodeKey]) -> Mapping[str, int]:
        """Register the sites' keys; gives the node ids."""
        sites = [
            {"name": n, "public_pem": k.public_pem.decode(), "fingerprint": k.fingerprint}
            for n, k in keys.items()
        ]
        ids: Mapping[str, int] = await self._errand("enrol", federation, sites=sites)
        return ids

    async def sign_off(self, unit: Unit) -> None:
        """Sign off a site whose SuperNode ended without doing so; silent when nobody answers."""
        layout = Layout(self._home, unit.federation)
        fingerprint = Roster(layout.roster).sites().get(unit.site)
        key = layout.place(unit.site) / PRIVATE
        if fingerprint is None or not key.exists():
            return
        order = {"fleet": unit.settings["fleet"], "key": str(key), "fingerprint": fingerprint}
        with contextlib.suppress(UmbelError):
            await self._errand("deactivate", unit.federation, **order)

    async def expel(self, federation: str, fingerprints: Sequence[str]) -> None:
        """Shut these keys out for ever."""
        await self._errand("expel", federation, fingerprints=list(fingerprints))
