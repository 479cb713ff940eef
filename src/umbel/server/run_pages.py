"""What daemon and desk answer alike about runs."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from umbel.engine.runs import Runs
from umbel.errors import UmbelError
from umbel.model.event import to_line
from umbel.model.status import RunStatus

BEAT_S = 15.0  # a stream says so often that it lives, with an empty line


class RunPages(ABC):
    """One method a verb."""

    @abstractmethod
    def _runs(self) -> Runs: ...

    @abstractmethod
    def _federation(self, request: Request) -> str:
        """Give the named federation, which must be there."""

    async def runs(self, request: Request) -> Response:
        runs = await self._runs().all(self._federation(request))
        return JSONResponse([asdict(run) for run in runs])

    async def run(self, request: Request) -> Response:
        return JSONResponse(asdict(await self._runs().get(*self._run_of(request))))

    async def stop(self, request: Request) -> Response:
        return JSONResponse(asdict(await self._runs().stop(*self._run_of(request))))

    async def events(self, request: Request) -> Response:
        name, run_id = self._run_of(request)
        run = await self._runs().get(name, run_id)

        async def lines() -> AsyncIterator[str]:
            try:
                async for item in self._runs().follow(name, run.run_id):
                    if isinstance(item, RunStatus):
                        yield json.dumps({"kind": "status", **asdict(item)}) + "\n"
                    else:
                        yield to_line(item) + "\n"
            except UmbelError as error:
                yield json.dumps({"problem": error.as_problem()}) + "\n"

        return as_lines(lines())

    async def logs(self, request: Request) -> Response:
        name, run_id = self._run_of(request)
        site = request.query_params.get("site") or None
        follow = request.query_params.get("follow") == "1"
        await self._runs().get(name, run_id)

        async def lines() -> AsyncIterator[str]:
            try:
                found = self._runs().logs(name, run_id, site=site, follow=follow)
                async for place, line in found:
                    yield json.dumps({"site": place, "line": line}) + "\n"
            except UmbelError as error:
                yield json.dumps({"problem": error.as_problem()}) + "\n"

        return as_lines(lines())

    def _run_of(self, request: Request) -> tuple[str, str]:
        return self._federation(request), request.path_params["run"]


def as_lines(content: AsyncIterator[str]) -> Response:
    """Answer with JSON lines, as they come."""
    return StreamingResponse(_beating(content), media_type="application/x-ndjson")


async def _beating(content: AsyncIterator[str]) -> AsyncIterator[str]:
    """Add an empty line where nothing was said for long: who listens knows that we live."""
    coming: asyncio.Task[str] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(content))
            done, _ = await asyncio.wait({coming}, timeout=BEAT_S)
            if not done:
                yield "\n"
                continue
            line, coming = coming.result(), None
            if not line:
                return
            yield line
    finally:
        if coming is not None:
            coming.cancel()


async def _next(content: AsyncIterator[str]) -> str:
    """Give the next line, or nothing at the end."""
    return await anext(content, "")
