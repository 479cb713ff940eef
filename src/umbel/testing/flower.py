"""A SuperLink that keeps everything in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from umbel.errors import UmbelError
from umbel.model.status import NodeSeen, RunStatus
from umbel.model.unit import Kind, Present
from umbel.ports import Target
from umbel.testing.builders import node


class FakeFlower:
    """Every SuperNode that the target runs is online, unless it is in `offline`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.offline: set[str] = set()
        self.unreachable: UmbelError | None = None
        self.listed: list[RunStatus] = []  # newest first
        self.stopped: list[str] = []
        self.submitted: list[tuple[Path, dict[str, Any]]] = []

    def _answer(self) -> None:
        if self.unreachable is not None:
            raise self.unreachable

    async def nodes(self, federation: str) -> Sequence[NodeSeen]:
        """List the SuperNodes."""
        self._answer()
        seen = (await self._target.observe(federation)).values()
        sites = [s.site for s in seen if isinstance(s, Present) and s.kind is Kind.SUPERNODE]
        return [
            node(site, status="offline" if site in self.offline else "online", node_id=number)
            for number, site in enumerate(sites, start=1)
        ]

    async def look(self, federation: str) -> tuple[Sequence[NodeSeen], Sequence[RunStatus]]:
        """List the SuperNodes and the runs."""
        return await self.nodes(federation), await self.runs(federation)

    async def runs(self, federation: str) -> Sequence[RunStatus]:
        """List the runs, newest first."""
        del federation
        self._answer()
        return list(self.listed)

    async def start(self, federation: str, app: Path, config: Mapping[str, Any]) -> RunStatus:
        """Take any app; the run stays pending until a test changes `listed`."""
        del federation
        self._answer()
        self.submitted.append((app, dict(config)))
        made = RunStatus(run_id=str(len(self.submitted)), app=app.name, status="pending")
        self.listed.insert(0, made)
        return made

    async def stop(self, federation: str, run_id: str) -> bool:
        """Stop a run; False when it had ended already."""
        del federation
        self._answer()
        self.stopped.append(run_id)
        found = next(r for r in self.listed if r.run_id == run_id)
        self.listed = [replace(r, status="stopped") if r is found else r for r in self.listed]
        return not found.ended
