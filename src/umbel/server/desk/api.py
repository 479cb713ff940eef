"""The desk's pages. Same shapes as the daemon's, for the one federation of this hub."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from umbel import __version__
from umbel.engine.engine import FederationUnknown
from umbel.engine.runs import Runs
from umbel.errors import UmbelError
from umbel.flower import versions
from umbel.flower.control import FAB_LIMIT, AppTooLarge
from umbel.gate.desk import PAGES, ROLE, Page
from umbel.gate.refusals import RoleTooSmall
from umbel.identity.roster import Roster
from umbel.model.role import Role
from umbel.model.status import NodeSeen, RunStatus
from umbel.ports import Flower
from umbel.server.desk.config import DeskConfig
from umbel.server.desk.files import download, listed, opened
from umbel.server.desk.flower import HubFolder
from umbel.server.desk.report import Report
from umbel.server.desk.sites import Doorkeeper, Enrols, keep_apps
from umbel.server.problems import OrderInvalid, problem, read_order
from umbel.server.run_pages import RunPages

MIB = 1 << 20
BUNDLE_BODY = 16 * MIB  # a bundle in base64, and its config
SITES_BODY = 16 * MIB
REPORT_BODY = 16 * MIB
LONGEST_WAIT_S = 300.0

Handler = Callable[[Request], Awaitable[Response]]


class Asks(Flower, Enrols, Protocol):
    """All that a desk asks of its SuperLink."""

    async def submit(self, fab: str, config: Mapping[str, Any]) -> RunStatus: ...


class DeskApi(RunPages):
    """One method a page of the gate's table."""

    def __init__(self, config: DeskConfig, flower: Asks) -> None:
        self._config = config
        self._flower = flower
        self._report = Report(config.status, config.federation)
        self._found_runs = Runs(flower, HubFolder(config.runs))
        self._keeper = Doorkeeper(config.federation, flower, Roster(config.roster))

    def app(self) -> Starlette:
        """Give the ASGI application."""
        routes = [
            Route(page.path, self._guarded(page, getattr(self, page.name)), methods=[page.method])
            for page in PAGES
        ]
        handlers: Any = {UmbelError: problem}
        return Starlette(
            routes=[Route("/healthz", self.healthz), *routes], exception_handlers=handlers
        )

    def _guarded(self, page: Page, handler: Handler) -> Handler:
        """Ask again what the gate asked: who speaks must have the role."""

        async def answer(request: Request) -> Response:
            role = request.headers.get(ROLE, "")
            if role not in list(Role) or not Role(role).reaches(page.role):
                raise RoleTooSmall(f"needs the role {page.role}")
            return await handler(request)

        return answer

    def _runs(self) -> Runs:
        return self._found_runs

    def _federation(self, request: Request) -> str:
        name: str = request.path_params["name"]
        if name != self._config.federation:
            raise FederationUnknown(name, [self._config.federation])
        return name

    async def healthz(self, _: Request) -> Response:
        """Say that the desk answers; whether the SuperLink does is another matter."""
        return JSONResponse({"ok": True})

    async def version(self, _: Request) -> Response:
        """Give the versions of Umbel and Flower."""
        return JSONResponse({"umbel": __version__, "flower": versions.installed(), "pids": []})

    async def federations(self, _: Request) -> Response:
        """Name the only federation there is."""
        return JSONResponse([{"metadata": {"name": self._config.federation}}])

    async def status(self, request: Request) -> Response:
        """Give the last report, with the runs of now."""
        name = self._federation(request)
        nodes, runs = await self._look(name)
        return JSONResponse(self._report.answer(nodes, runs, datetime.now(UTC)))

    async def _look(
        self, name: str
    ) -> tuple[Sequence[NodeSeen] | None, Sequence[RunStatus] | None]:
        try:
            nodes, runs = await self._flower.look(name)
        except UmbelError:
            return None, None
        return nodes, [self._found_runs.enriched(name, run) for run in runs]

    async def report(self, request: Request) -> Response:
        """Keep a status, to be given to who asks."""
        self._federation(request)
        self._report.keep(await read_order(request, REPORT_BODY))
        return JSONResponse({})

    async def nodes(self, request: Request) -> Response:
        """List the SuperNodes that the SuperLink knows."""
        found = await self._flower.nodes(self._federation(request))
        return JSONResponse([asdict(node) for node in found])

    async def sites(self, request: Request) -> Response:
        """Let exactly these sites in from now on, and say which of them can run some apps."""
        self._federation(request)
        order = await read_order(request, SITES_BODY)
        wanted, apps = order.get("sites"), order.get("apps", {})
        if set(order) - {"sites", "apps"} or not isinstance(wanted, dict):
            raise OrderInvalid('it must be {"sites": {name: public key}, "apps": {…}}')
        if not all(isinstance(pem, str) for pem in wanted.values()):
            raise OrderInvalid("every site needs its public key as a text")
        keep_apps(self._config.roster, apps)
        return JSONResponse(asdict(await self._keeper.admit(wanted)))

    async def rounds(self, request: Request) -> Response:
        """Say whether a round is under way; wait for its end if asked to."""
        try:
            wait_s = float(request.query_params.get("wait", "0"))
        except ValueError as error:
            raise OrderInvalid("wait must be a number of seconds") from error
        name = self._federation(request)
        found = await self._found_runs.rounds(name, wait_s=min(wait_s, LONGEST_WAIT_S))
        return JSONResponse(asdict(found))

    async def start(self, request: Request) -> Response:
        """Submit an app, built already."""
        self._federation(request)
        order = await read_order(request, BUNDLE_BODY)
        fab, config = order.get("fab"), order.get("config", {})
        if set(order) - {"fab", "config"} or not isinstance(fab, str):
            raise OrderInvalid('it must be {"fab": base64, "config": {…}}')
        _check_bundle(fab)
        _check_config(config)
        run = await self._flower.submit(fab, config)
        return JSONResponse(asdict(run), status_code=201)

    async def files(self, request: Request) -> Response:
        """List what a run left at the hub."""
        name, run_id = self._run_of(request)
        run = await self._found_runs.get(name, run_id)
        await self._found_runs.files(name, run.run_id)
        return JSONResponse(listed(self._config.runs, run.run_id))

    async def file(self, request: Request) -> Response:
        """Give one of the files that a run left."""
        run = await self._found_runs.get(*self._run_of(request))
        return download(opened(self._config.runs, run.run_id, request.path_params["path"]))


def _check_bundle(fab: str) -> None:
    try:
        size = len(base64.b64decode(fab, validate=True))
    except (binascii.Error, ValueError) as error:
        raise OrderInvalid("the bundle is not in base64") from error
    if size > FAB_LIMIT:
        raise AppTooLarge(size)


def _check_config(config: object) -> None:
    if not isinstance(config, dict):
        raise OrderInvalid("the config is not an object")
    for key, value in config.items():
        if not isinstance(value, str | int | float | bool):
            raise OrderInvalid(f"the config's {key} is neither a text nor a number nor a boolean")
