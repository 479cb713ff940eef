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
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from umbel import __version__
from umbel.engine.runs import Runs
from umbel.engine.scaling import scaled
from umbel.errors import UmbelError
from umbel.model.federation import Federation
from umbel.ports import Progress
from umbel.server.problems import problem
from umbel.server.run_pages import RunPages, as_lines
from umbel.wiring import House

Work = Callable[[Progress], Awaitable[Any]]


class Api(RunPages):
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
        handlers: Any = {UmbelError: problem}
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

    async def start(self, request: Request) -> Response:
        order = await request.json()
        name = self._federation(request)
        run = await self._house.runs.start(name, Path(order["app"]), order["config"])
        return JSONResponse(asdict(run), status_code=201)

    async def files(self, request: Request) -> Response:
        files = await self._house.runs.files(*self._run_of(request))
        return JSONResponse([str(path) for path in files])

    def _runs(self) -> Runs:
        return self._house.runs

    def _federation(self, request: Request) -> str:
        return self._house.engine.require(request.path_params["name"]).name

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

        return as_lines(lines())


def _first(group: ExceptionGroup[Exception]) -> UmbelError:
    """Find the error to tell; a bug goes on as one."""
    for error in group.exceptions:
        if isinstance(error, UmbelError):
            return error
        if isinstance(error, ExceptionGroup):
            return _first(error)
    raise group


async def _document(request: Request) -> Federation:
    return Federation.model_validate_json(await request.body())
