"""A federation's SuperLink on Kubernetes, asked through its gate and its desk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from umbel.errors import RequestError
from umbel.model.status import NodeSeen, RunStatus
from umbel.targets.ocm.desk import DeskClient


class RunsElsewhere(RequestError):
    """Runs of a federation on Kubernetes are started and stopped through its gate."""

    code = "U371"

    def __init__(self, federation: str) -> None:
        super().__init__(
            f"runs of {federation} go through its gate", hint="umbel connect, then umbel run"
        )


class OcmFlower:
    """Looks; people start and stop runs themselves, with their own tokens."""

    def __init__(self, desk: Callable[[], DeskClient]) -> None:
        self._desk = desk

    async def nodes(self, federation: str) -> Sequence[NodeSeen]:
        """List the SuperNodes."""
        del federation
        return await self._desk().nodes()

    async def look(self, federation: str) -> tuple[Sequence[NodeSeen], Sequence[RunStatus]]:
        """List the SuperNodes and the runs."""
        return await self.nodes(federation), await self.runs(federation)

    async def runs(self, federation: str) -> Sequence[RunStatus]:
        """List the runs, newest first."""
        del federation
        return await self._desk().runs()

    async def start(self, federation: str, app: Path, config: Mapping[str, Any]) -> RunStatus:
        """Refuse: an operator runs nobody's code."""
        del app, config
        raise RunsElsewhere(federation)

    async def stop(self, federation: str, run_id: str) -> bool:
        """Refuse: an operator stops nobody's run."""
        del run_id
        raise RunsElsewhere(federation)
