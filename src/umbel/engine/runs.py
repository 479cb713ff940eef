"""Runs of Flower apps: submit, follow, stop, fetch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from umbel.errors import RequestError, UmbelError
from umbel.model.event import Event, from_line
from umbel.model.status import Rounds, RunStatus
from umbel.model.unit import HUB
from umbel.observe.runs import EVENTS, LOG, Tail, enrich, in_round, read_events, run_folders
from umbel.ports import Flower, RunsApps

LOOK_AGAIN_S = 0.2
ASK_AGAIN_S = 1.0  # the SuperLink is asked less often than files are read


class RunUnknown(RequestError):
    """There is no such run."""

    code = "U324"

    def __init__(self, run_id: str, known: Sequence[str]) -> None:
        hint = f"newest runs: {', '.join(known[:3])}" if known else "umbel run APP starts one"
        super().__init__(f"there is no run {run_id!r}", hint=hint)


class NothingToPull(RequestError):
    """The run left no files."""

    code = "U325"

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id} has left no model and no metrics",
            hint="a run leaves them when its strategy ends: umbel runs shows how far it is",
        )


class SiteUnknown(RequestError):
    """The run did not reach that site."""

    code = "U326"

    def __init__(self, site: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no log of site {site!r} for this run", hint=f"logs: {', '.join(known)}"
        )


class Runs:
    """The runs of all federations."""

    def __init__(self, flower: Flower, places: RunsApps) -> None:
        self._flower = flower
        self._places = places

    async def all(self, federation: str) -> list[RunStatus]:
        """Give every run, newest first, with what its events tell."""
        runs = await self._flower.runs(federation)
        return [self.enriched(federation, run) for run in runs]

    def enriched(self, federation: str, run: RunStatus) -> RunStatus:
        """Add to a run what its events tell."""
        return enrich(run, read_events(self._folders(federation, run.run_id)))

    async def get(self, federation: str, run_id: str) -> RunStatus:
        """Give one run; a prefix of its id will do when it is the only one."""
        runs = await self._flower.runs(federation)
        found = [run for run in runs if run.run_id.startswith(run_id)]
        exact = [run for run in runs if run.run_id == run_id] or found
        if len(exact) != 1:
            raise RunUnknown(run_id, [run.run_id for run in runs])
        return self.enriched(federation, exact[0])

    async def start(self, federation: str, app: Path, config: Mapping[str, Any]) -> RunStatus:
        """Build and submit an app."""
        return await self._flower.start(federation, app, config)

    async def stop(self, federation: str, run_id: str) -> RunStatus:
        """Stop the run and end its processes; doing it again changes nothing."""
        run = await self.get(federation, run_id)
        if not run.ended:
            await self._flower.stop(federation, run.run_id)
        await self._places.end_tasks(federation, run.run_id)
        return await self.get(federation, run.run_id)

    async def follow(self, federation: str, run_id: str) -> AsyncIterator[Event | RunStatus]:
        """Give events as they happen and each change of status, the last one being its end."""
        tails: dict[str, Tail] = {}
        loop = asyncio.get_running_loop()
        run = await self.get(federation, run_id)
        asked_s = loop.time()
        yield run
        while True:
            ended = run.ended  # asked before the files are read: nothing comes after
            for event in self._new_events(federation, run_id, tails):
                yield event
            if ended:
                return
            await asyncio.sleep(LOOK_AGAIN_S)
            if loop.time() - asked_s >= ASK_AGAIN_S:
                asked_s, before = loop.time(), run
                run = await self._newer(federation, run)
                if run.status != before.status:
                    yield run

    async def _newer(self, federation: str, run: RunStatus) -> RunStatus:
        """Look again; while nobody can look, what was seen last still holds."""
        try:
            return await self.get(federation, run.run_id)
        except RunUnknown:
            raise
        except UmbelError:
            return run

    def _new_events(self, federation: str, run_id: str, tails: dict[str, Tail]) -> list[Event]:
        found: list[Event] = []
        for site, folder in run_folders(self._places.run_places(federation), run_id).items():
            tail = tails.setdefault(site, Tail(folder / EVENTS))
            found += [event for line in tail.read() if (event := from_line(line)) is not None]
        return sorted(found, key=lambda event: event.at)

    async def logs(
        self, federation: str, run_id: str, *, site: str | None, follow: bool
    ) -> AsyncIterator[tuple[str, str]]:
        """Give (site, line) of the ServerApp's log, of one site's, or of all; on while it runs."""
        run = await self.get(federation, run_id)
        tails: dict[str, Tail] = {}
        asked_s = asyncio.get_running_loop().time()
        while True:
            ended = run.ended or not follow
            for name, folder in self._log_folders(federation, run.run_id, site).items():
                tail = tails.setdefault(name, Tail(folder / LOG))
                for line in tail.rest() if ended else tail.read():
                    yield name, line
            if ended:
                break
            await asyncio.sleep(LOOK_AGAIN_S)
            if asyncio.get_running_loop().time() - asked_s >= ASK_AGAIN_S:
                asked_s = asyncio.get_running_loop().time()
                run = await self._newer(federation, run)
        if site is not None and not tails:
            known = run_folders(self._places.run_places(federation), run.run_id)
            raise SiteUnknown(site, list(known))

    def _log_folders(self, federation: str, run_id: str, site: str | None) -> dict[str, Path]:
        folders = run_folders(self._places.run_places(federation), run_id)
        if site == "all":
            return folders
        return {name: path for name, path in folders.items() if name == (site or HUB)}

    async def files(self, federation: str, run_id: str) -> list[Path]:
        """List what the run left at the hub: model, metrics, and what the ServerApp wrote."""
        run = await self.get(federation, run_id)
        folder = run_folders(self._places.run_places(federation), run.run_id).get(HUB)
        if folder is None:
            raise NothingToPull(run.run_id)
        found = [p for p in sorted(folder.rglob("*")) if _is_result(p)]
        if not any(path.name not in (LOG, EVENTS) for path in found):
            raise NothingToPull(run.run_id)
        return found

    async def rounds(self, federation: str, *, wait_s: float = 0.0) -> Rounds:
        """Say whether a round is under way; wait so long for a moment when none is."""
        loop = asyncio.get_running_loop()
        began_s = asked_s = loop.time()
        active = await self._active(federation)
        while True:
            in_round = any(self._in_round(federation, run) for run in active)
            if not in_round or loop.time() - began_s >= wait_s:
                return Rounds(len(active), in_round)
            await asyncio.sleep(LOOK_AGAIN_S)
            if loop.time() - asked_s >= ASK_AGAIN_S:
                active, asked_s = await self._active(federation), loop.time()

    async def _active(self, federation: str) -> list[RunStatus]:
        return [run for run in await self._flower.runs(federation) if not run.ended]

    def _in_round(self, federation: str, run: RunStatus) -> bool:
        if run.status != "running":
            return False
        events = read_events(self._folders(federation, run.run_id))
        return in_round(events, datetime.now(UTC))

    def _folders(self, federation: str, run_id: str) -> list[Path]:
        return list(run_folders(self._places.run_places(federation), run_id).values())


def _is_result(path: Path) -> bool:
    """Whether a file is the run's own: not hidden, and no link to somewhere else."""
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".")
