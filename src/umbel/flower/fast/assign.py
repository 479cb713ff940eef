"""Hands a task only to an executor that has its app's environment.

An executor in a pod of its own serves one environment, and signs with that environment's secret:
what it may take is the SuperNode's knowledge, not its own claim. Apps that have an environment are
given to nobody else. Flower's own functions check and claim; they only see fewer tasks.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from umbel.flower.environments import HEADER, Served
from umbel.flower.fast import guard
from umbel.flower.fast.asgi import App, Receive, Scope, Send, read_body
from umbel.flower.fast.bells import Bells

ACQUIRE = "/v1/runtime/acquire-task"
METHOD = "/flwr.proto.Runtime/AcquireTask"
CLIENT_APP = "flwr-clientapp"
TASK_BELL = "task"  # rung when a message is stored, whose task was created before it
HOLD_S = 20.0  # Flower's clients wait 30 s for an answer
PATIENCE_S = 30.0  # a SuperNode does one message at a time: others wait with it
LOOK_S = 1.0
MEDIA = "application/protobuf"
_PENDING = ["pending"]


class Assign:
    """The layer, around a SuperNode's app; `served` is the app that Flower made."""

    def __init__(
        self, app: App, served: Any, bells: Bells, environments: Mapping[str, Served]
    ) -> None:
        self._app = app
        self._served = served
        self._bells = bells
        self._environments = environments
        self._apps = frozenset(one.app for one in environments.values())
        self._heard_s: dict[str, float] = {}  # when an executor for an app asked last
        self._due = threading.Event()  # a task waits for an environment's executor
        self._pause = threading.Event()  # never set
        self._translate: Any = import_module("flwr.supercore.error").http_error_translator
        translation: Any = import_module("flwr.supercore.protobuf.translation")
        self._middleware: Any = translation.ProtobufTranslationMiddleware
        self._type: Any = translation.PROTOBUF_REQUEST_TYPES["POST", ACQUIRE]
        self._runtime: Any = import_module("flwr.supercore.dependencies.runtime")
        self._superexec: Any = import_module("flwr.supercore.dependencies.superexec")
        self._version: Any = import_module("flwr.supercore.dependencies.version").VersionDependency(
            component_name="SuperNode", connection_name="Caller <-> SuperNode Runtime API"
        )
        threading.Thread(target=self._watch, name="umbel-assign", daemon=True).start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer who asks for a task; everything else goes on."""
        if scope["type"] != "http" or scope["path"] != ACQUIRE or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        guard.took(guard.Way.ASSIGN)
        body = await read_body(receive)
        if body is not None:
            call = partial(self._answer, scope, body)
            response: Response = await self._translate(Request(scope), call)
            await response(scope, receive, send)

    async def _answer(self, scope: Scope, body: bytes, asked: Request) -> Response:
        self._middleware._check_request_media_type(asked)  # noqa: SLF001  # as Flower does first
        named = asked.headers.getlist(HEADER)
        if len(named) > 1 or (named and named[0] not in self._environments):
            self._superexec._raise_authentication_failed(METHOD)  # noqa: SLF001
        name = named[0] if named else ""
        message = self._middleware._parse_request(body, request_type=self._type)  # noqa: SLF001
        request = Request({**scope, "app": self._desk(name), "state": {}})
        request.state.protobuf_request = message
        self._version(request)
        state = self._runtime.get_runtime_state(request)
        self._runtime.authenticate_superexec_request(request, state, METHOD)
        if name:
            app = self._environments[name].app
            self._heard_s[app] = time.monotonic()
            if not message.supported_task_types:  # it asks for no task, only when there is one
                await self._wait(state)
                self._heard_s[app] = time.monotonic()
        answer = self._runtime.get_runtime_handlers(request).acquire_task(message, state)
        return Response(answer.SerializeToString(), media_type=MEDIA)

    def _desk(self, name: str) -> Any:
        """Give what Flower's checks look at: the app's state, with this caller's secret and view."""
        real: Any = self._served.state
        secret = self._environments[name].secret if name else real.superexec_auth_secret
        shows = partial(self._is_ready_for, name) if name else self._is_for_all

        def state() -> Any:
            return _Some(real.runtime_state_factory.state(), shows)

        seen = SimpleNamespace(
            superexec_auth_secret=secret,
            runtime_state_factory=SimpleNamespace(state=state),
            runtime_handlers=real.runtime_handlers,
        )
        return SimpleNamespace(state=seen)

    def _is_for_all(self, state: Any, task: Any) -> bool:
        return _app_of(state, task) not in self._apps

    def _is_ready_for(self, name: str, state: Any, task: Any) -> bool:
        """Whether it is this environment's, and its message is there: it comes after its task."""
        own = task.type == CLIENT_APP and _app_of(state, task) == self._environments[name].app
        return own and _has_message(state, task)

    async def _wait(self, state: Any) -> None:
        ends_at = asyncio.get_running_loop().time() + HOLD_S
        with self._bells.listen([TASK_BELL]) as ear:
            while not state.get_tasks(statuses=_PENDING):
                left_s = ends_at - asyncio.get_running_loop().time()
                if left_s <= 0:
                    return
                await ear.wait(left_s)

    def arrived(self) -> None:
        """Take note of a message. Where nobody has its environment, it is answered after a while."""
        self._bells.ring(TASK_BELL)
        if self._waiting():
            self._due.set()

    def _watch(self) -> None:
        """End tasks that nobody can take; looks at nothing while none waits."""
        since_s: dict[int, float] = {}
        while self._due.wait():
            waiting, now_s = self._waiting(), time.monotonic()
            since_s = {task_id: since_s.get(task_id, now_s) for task_id in waiting}
            for task_id, app in waiting.items():
                if now_s - max(since_s[task_id], self._heard_s.get(app, 0.0)) > PATIENCE_S:
                    self._end(task_id, app)
            if not waiting:
                self._due.clear()
            self._pause.wait(LOOK_S)

    def _waiting(self) -> dict[int, str]:
        """List the tasks that wait for an executor with their app's environment, and the apps."""
        state: Any = self._served.state.runtime_state_factory.state()
        pending = state.get_tasks(statuses=_PENDING)
        found = {task.task_id: _app_of(state, task) for task in pending}
        return {task_id: app for task_id, app in found.items() if app in self._apps}

    def _end(self, task_id: int, app: str) -> None:
        words = (
            f"this site has no environment of {app}: "
            f"no executor that has one asked for {PATIENCE_S:g} s"
        )
        self._served.state.runtime_state_factory.state().finish_task(task_id, "failed", words)


class _Some:
    """A state that shows some of its tasks."""

    def __init__(self, state: Any, shows: Callable[[Any, Any], bool]) -> None:
        self._state = state
        self._shows = shows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def get_tasks(self, **which: Any) -> list[Any]:
        found = self._state.get_tasks(**which)
        return [task for task in found if self._shows(self._state, task)]


def _app_of(state: Any, task: Any) -> str:
    run = state.get_run(task.run_id)
    return str(run.fab_id) if run is not None else ""


def _has_message(state: Any, task: Any) -> bool:
    with state.lock_msg_store:
        return any(
            entry.message.metadata.run_id == task.run_id
            and not entry.is_retrieved
            and not entry.message.metadata.reply_to_message_id
            for entry in state.msg_store.values()
        )
