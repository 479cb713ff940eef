"""Answers Flower's busiest routes past the web stack, with Flower's own checks and handlers.

A request for such a route is parsed, authenticated and handled by the very functions that Flower's
routers call, in one thread hop and one database transaction. What goes wrong is translated by
Flower's own translator. All other requests take the usual way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from umbel.flower.fast import bulk, guard, memo
from umbel.flower.fast.asgi import App, Receive, Scope, Send, read_body
from umbel.flower.fast.bells import Bells

T = TypeVar("T")
Serve = Callable[[Request, Any], Any]

_shared: ContextVar[bool] = ContextVar("shared", default=False)  # one transaction for all

FLEET = {
    "send-node-heartbeat": "fleet_send_node_heartbeat",
    "pull-messages": "fleet_pull_messages",
    "push-messages": "fleet_push_messages",
    "push-object": "fleet_push_object",
    "pull-object": "fleet_pull_object",
    "confirm-message-received": "fleet_confirm_message_received",
}
# Runtime routes by what their function takes after the request.
WITH_HANDLERS = {
    "pull-task-input": "pull_task_input",
    "push-object": "push_object",
    "pull-object": "pull_object",
    "confirm-message-received": "confirm_message_received",
    "push-messages": "push_messages",
    "pull-messages": "pull_messages",
    "get-nodes": "get_nodes",
}
WITHOUT_HANDLERS = {"send-task-heartbeat": "send_task_heartbeat", "push-logs": "push_logs"}
MEDIA = "application/protobuf"
SMALL_BYTES = 64 << 10


# What Flower's own apps have around their routes: a further layer may be one that authenticates.
PLAIN_LAYERS = frozenset(
    {
        "ControlSensitiveResponseMiddleware",
        "BaseHTTPMiddleware",
        "ControlAuthenticationMiddleware",
        "ControlLicenseMiddleware",
        "ProtobufTranslationMiddleware",
        "RuntimeTracingMiddleware",
        "ControlEventLogMiddleware",
        "NodeAuthMiddleware",
        "FleetEventLogMiddleware",
    }
)


class _Refused(Exception):
    """An object was not stored: what Flower did before it refused must not be committed."""


def is_plain(app: Any) -> bool:
    """Whether the app has the known layers only, and neither tracing nor event logs are on."""
    names = {layer.cls.__name__ for layer in app.user_middleware}
    logs = getattr(app.state, "fleet_event_log_plugin", None)
    return names <= PLAIN_LAYERS and logs is None and os.getenv("FLWR_TRACING_ENABLED") != "1"


class Shortcut:
    """The layer, around Flower's FastAPI app."""

    def __init__(self, app: App, bells: Bells, component: str) -> None:
        self._app = app
        self._bells = bells
        self._one_writer = threading.Lock()
        self._translate: Any = import_module("flwr.supercore.error").http_error_translator
        translation: Any = import_module("flwr.supercore.protobuf.translation")
        self._types: Any = translation.PROTOBUF_REQUEST_TYPES
        self._middleware: Any = translation.ProtobufTranslationMiddleware
        self._serve: dict[str, Serve] = _runtime_routes(component)
        bulk.install_server()
        if component == "SuperLink":
            self._serve |= _fleet_routes() | _control_routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, by the short way if there is one."""
        serve = self._serve.get(scope["path"]) if scope["type"] == "http" else None
        if serve is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await read_body(receive)
        if body is not None:
            response = await self._answer(scope, body)
            await response(scope, receive, send)

    async def _answer(self, scope: Scope, body: bytes) -> Response:
        async def call(request: Request) -> Response:
            self._middleware._check_request_media_type(request)  # noqa: SLF001
            result = await self.soon(lambda: self._serve_one(scope, body), len(body))
            return Response(result, media_type=MEDIA)

        return await self.translated(Request(scope), call)

    async def soon(self, work: Callable[[], T], size: int) -> T:
        """Do small work at once: it takes less time than to hand it to a thread and back."""
        return work() if size <= SMALL_BYTES else await run_in_threadpool(work)

    def _serve_one(self, scope: Scope, body: bytes) -> bytes:
        return self.together(lambda: self.serve(scope, scope["path"], body))

    async def translated(
        self, request: Request, call: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Make the call; errors become the answers that Flower gives."""
        response: Response = await self._translate(request, call)
        return response

    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        """Put what is done in the block into one transaction, and ring its bells after that."""
        state: Any = self._app.state.runtime_state_factory.state()  # type: ignore[attr-defined]
        session = getattr(state, "session", None)
        if session is None:  # a SuperNode's state is in memory
            with self._bells.later():
                yield
            return
        token = _shared.set(True)
        try:
            # SQLite has one writer; who waits here is woken, who waits there sleeps and tries.
            with self._bells.later(), self._one_writer, session(), memo.unit_of_work(state):
                yield
        finally:
            _shared.reset(token)

    def together(self, work: Callable[[], T]) -> T:
        """Do the work as one unit; a refused object makes each step a unit of Flower's own."""
        try:
            with self.unit_of_work():
                return work()
        except _Refused:  # all is undone: Flower undoes just what belongs to the refused one
            with self._bells.later():
                return work()

    def _parsed(self, path: str, body: bytes | memoryview) -> Any:
        kind = self._types["POST", path]
        parse = partial(self._middleware._parse_request, request_type=kind)  # noqa: SLF001
        if path.endswith("/push-object"):
            return bulk.parsed(kind, body, parse)
        return parse(bytes(body))

    def serve(self, scope: Scope, path: str, body: bytes | memoryview) -> bytes:
        """Check and handle one request, in this thread; gives the serialized answer."""
        guard.took(guard.Way.SHORTCUT)
        request = Request({**scope, "path": path, "app": self._app, "state": {}})
        message = self._parsed(path, body)
        request.state.protobuf_request = message
        answer: Any = self._serve[path](request, message)
        if _shared.get() and path.endswith("/push-object") and not answer.stored:
            raise _Refused
        content: bytes = answer.SerializeToString()
        return content


def _fleet_routes() -> dict[str, Serve]:
    router: Any = import_module("flwr.superlink.routers.fleet.router")
    authenticate: Any = import_module("flwr.superlink.routers.fleet.node_auth").authenticate_node
    linkstate: Any = import_module("flwr.superlink.dependencies.linkstate").get_linkstate

    def route(function: Any) -> Serve:
        def serve(request: Request, message: Any) -> Any:
            authenticate(request)
            return function(message, linkstate(request))

        return serve

    return {f"/v1/fleet/{path}": route(getattr(router, name)) for path, name in FLEET.items()}


def _control_routes() -> dict[str, Serve]:
    """Registering many sites at once is what people wait for; all else takes the usual way."""
    router: Any = import_module("flwr.superlink.routers.control.router")
    linkstate: Any = import_module("flwr.superlink.dependencies.linkstate").get_linkstate

    def register(request: Request, message: Any) -> Any:
        account = request.app.state.account_access_dep(request)
        return router.register_node(message, linkstate(request), account)

    return {"/v1/control/register-node": register}


def _runtime_routes(component: str) -> dict[str, Serve]:
    router: Any = import_module("flwr.supercore.routers.runtime.router")
    runtime: Any = import_module("flwr.supercore.dependencies.runtime")
    task: Any = import_module("flwr.supercore.dependencies.task")
    version = import_module("flwr.supercore.dependencies.version").VersionDependency(
        component_name=component, connection_name=f"Caller <-> {component} Runtime API"
    )
    header: str = import_module("flwr.supercore.constant").TASK_TOKEN_HEADER

    def route(function: Any, *, handlers: bool) -> Serve:
        def serve(request: Request, message: Any) -> Any:
            version(request)
            state = runtime.get_runtime_state(request)
            known = task.authenticate_task(request, request.headers.get(header), state)
            extra = (runtime.get_runtime_handlers(request),) if handlers else ()
            return function(message, state, *extra, known)

        return serve

    def acquire(request: Request, message: Any) -> Any:
        version(request)
        state = runtime.get_runtime_state(request)
        runtime.authenticate_superexec_request(request, state, "/flwr.proto.Runtime/AcquireTask")
        return router.acquire_task(message, state, runtime.get_runtime_handlers(request), None)

    routes: dict[str, Serve] = {"/v1/runtime/acquire-task": acquire}
    for names, handlers in ((WITH_HANDLERS, True), (WITHOUT_HANDLERS, False)):
        for path, name in names.items():
            routes[f"/v1/runtime/{path}"] = route(getattr(router, name), handlers=handlers)
    return routes
