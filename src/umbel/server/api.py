"""The HTTP API. Answers are JSON; what takes time is a stream of JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from umbel import __version__
from umbel.engine.scaling import scaled
from umbel.errors import DocumentError, RequestError, UmbelError
from umbel.model.event import to_line
from umbel.model.federation import Federation
from umbel.model.status import RunStatus
from umbel.ports import Progress
from umbel.wiring import House

Work = Callable[[Progress], Awaitable[Any]]


class Api:
    """One method a verb."""

    def __init__(self, house: House, on_idle: Callable[[], None]) -> None:
        self._house = house
        self._on_idle = on_idle
        self._tasks: set[asyncio.Task[None]] = set()

    def app(self) -> Starlette:
        """Give the ASGI application."""
        one = "/v1/federations/{name}"
        run = one + "/runs/{run}"
        routes = [
            Route("/v1/version", self.version),
            Route("/v1/federations", self.federations),
            Route(one, self.status),
            Route(one, self.up, methods=["PUT"]),
            Route(one, self.down, methods=["DELETE"]),
            Route(one + "/plan", self.plan, methods=["POST"]),
            Route(one + "/scale", self.scale, methods=["POST"]),
            Route(one + "/runs", self.runs),
            Route(one + "/runs", self.start, methods=["POST"]),
            Route(run, self.run),
            Route(run + "/events", self.events),
            Route(run + "/logs", self.logs),
            Route(run + "/stop", self.stop, methods=["POST"]),
            Route(run + "/files", self.files),
        ]
        handlers: Any = {UmbelError: _problem}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def version(self, _: Request) -> Response:
        nursery = await self._house.nursery.pid()
        return JSONResponse({"umbel": __version__, "pids": [os.getpid(), *nursery]})

    async def federations(self, _: Request) -> Response:
        return JSONResponse(
            [f.model_dump(mode="json") for f in self._house.engine.known().values()]
        )

    async def status(self, request: Request) -> Response:
        name = request.path_params["name"]
        status = await self._house.engine.status(name)
        if status.runs is not None:
            runs = tuple(self._house.runs.enriched(name, run) for run in status.runs)
            status = replace(status, runs=runs)
        return JSONResponse(asdict(status))

    async def plan(self, request: Request) -> Response:
        return JSONResponse(asdict(await self._house.engine.plan(await _document(request))))

    async def up(self, request: Request) -> Response:
        federation = await _document(request)
        basis = request.query_params.get("basis", "")
        engine = self._house.engine

        async def work(progress: Progress) -> Any:
            if request.query_params.get("rotate_ca") == "1":
                plan = await engine.rotate_authority(federation, progress)
            else:
                plan = await engine.apply(federation, progress, basis)
            status = await engine.status(federation.name)
            return {"plan": asdict(plan), "status": asdict(status)}

        return self._stream(work)

    async def scale(self, request: Request) -> Response:
        order = await request.json()
        known = self._house.engine.require(request.path_params["name"])
        federation = scaled(known, str(order["group"]), int(order["count"]))

        async def work(progress: Progress) -> Any:
            plan = await self._house.engine.apply(federation, progress)
            status = await self._house.engine.status(federation.name)
            return {"plan": asdict(plan), "status": asdict(status)}

        return self._stream(work)

    async def down(self, request: Request) -> Response:
        name = request.path_params["name"]
        keep = request.query_params.get("keep_data") == "1"

        async def work(progress: Progress) -> Any:
            progress(f"ending {name}")
            await self._house.engine.down(name, keep_data=keep)
            return {"kept": str(self._house.home / "federations" / name)}

        return self._stream(work)

    async def runs(self, request: Request) -> Response:
        name = self._house.engine.require(request.path_params["name"]).name
        runs = await self._house.runs.all(name)
        return JSONResponse([asdict(run) for run in runs])

    async def run(self, request: Request) -> Response:
        return JSONResponse(asdict(await self._house.runs.get(*self._run_of(request))))

    async def start(self, request: Request) -> Response:
        order = await request.json()
        name = self._house.engine.require(request.path_params["name"]).name
        run = await self._house.runs.start(name, Path(order["app"]), order["config"])
        return JSONResponse(asdict(run), status_code=201)

    async def stop(self, request: Request) -> Response:
        return JSONResponse(asdict(await self._house.runs.stop(*self._run_of(request))))

    async def events(self, request: Request) -> Response:
        run = await self._house.runs.get(*self._run_of(request))
        name = request.path_params["name"]

        async def lines() -> AsyncIterator[str]:
            try:
                async for item in self._house.runs.follow(name, run.run_id):
                    if isinstance(item, RunStatus):
                        yield json.dumps({"kind": "status", **asdict(item)}) + "\n"
                    else:
                        yield to_line(item) + "\n"
            except UmbelError as error:
                yield json.dumps({"problem": error.as_problem()}) + "\n"

        return _lines(lines())

    async def logs(self, request: Request) -> Response:
        name, run_id = self._run_of(request)
        site = request.query_params.get("site") or None
        follow = request.query_params.get("follow") == "1"
        await self._house.runs.get(name, run_id)

        async def lines() -> AsyncIterator[str]:
            try:
                found = self._house.runs.logs(name, run_id, site=site, follow=follow)
                async for place, line in found:
                    yield json.dumps({"site": place, "line": line}) + "\n"
            except UmbelError as error:
                yield json.dumps({"problem": error.as_problem()}) + "\n"

        return _lines(lines())

    async def files(self, request: Request) -> Response:
        files = await self._house.runs.files(*self._run_of(request))
        return JSONResponse([str(path) for path in files])

    def _run_of(self, request: Request) -> tuple[str, str]:
        return self._house.engine.require(request.path_params["name"]).name, request.path_params[
            "run"
        ]

    def _stream(self, work: Work) -> Response:
        """Do the work to its end, whether or not somebody goes on listening."""
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

        async def do() -> None:
            try:
                result = await work(lambda text: queue.put_nowait({"progress": text}))
                queue.put_nowait({"result": result})
            except UmbelError as error:
                queue.put_nowait({"problem": error.as_problem()})
            except ExceptionGroup as group:
                queue.put_nowait({"problem": _first(group).as_problem()})
            finally:
                queue.put_nowait(None)
                if not self._house.engine.known():
                    self._on_idle()

        task = asyncio.create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        async def lines() -> AsyncIterator[str]:
            while (item := await queue.get()) is not None:
                yield json.dumps(item) + "\n"

        return _lines(lines())


def _first(group: ExceptionGroup[Exception]) -> UmbelError:
    """Find the error to tell; a bug goes on as one."""
    for error in group.exceptions:
        if isinstance(error, UmbelError):
            return error
        if isinstance(error, ExceptionGroup):
            return _first(error)
    raise group


def _lines(content: AsyncIterator[str]) -> Response:
    return StreamingResponse(content, media_type="application/x-ndjson")


async def _document(request: Request) -> Federation:
    return Federation.model_validate_json(await request.body())


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, UmbelError)  # noqa: S101  # registered for it
    status = 422 if isinstance(error, DocumentError) else 404
    if not isinstance(error, DocumentError | RequestError):
        status = 503
    return JSONResponse(error.as_problem(), status, media_type="application/problem+json")
