"""Gives a task its input only when the one before it, of the same run, has handed its context back.

A ClientApp sends its reply first and its context after that. By Flower's own pace the context always
arrives in time; by ours the next task may be there before it, and would work with an old state.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from umbel.flower.fast import guard
from umbel.flower.fast.asgi import App, Receive, Scope, Send
from umbel.flower.fast.bells import Bells

INPUT, OUTPUT = "/v1/runtime/pull-task-input", "/v1/runtime/push-task-output"
LONGEST_S = 10.0  # an app that lingers after its reply does not stop its run
_TOKEN = b"flwr-task-token"


def run_bell(run_id: int) -> str:
    """Rung when a task of this run has handed its output back."""
    return f"run/{run_id}"


class InOrder:
    """The layer, around a SuperNode's app; `served` is the app that Flower made."""

    def __init__(self, app: App, served: Any, bells: Bells) -> None:
        self._app = app
        self._served = served
        self._bells = bells
        self._ending: Counter[int] = Counter()  # runs whose output is being taken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, an input perhaps later."""
        path = scope["path"] if scope["type"] == "http" else ""
        task = self._task(scope) if path in (INPUT, OUTPUT) else None
        if task is None:
            await self._app(scope, receive, send)
        elif path == INPUT:
            await self._wait(task)
            await self._app(scope, receive, send)
        else:
            self._ending[task.run_id] += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._ending[task.run_id] -= 1
                self._bells.ring(run_bell(task.run_id))

    def _task(self, scope: Scope) -> Any:
        tokens = [value for name, value in scope["headers"] if name == _TOKEN]
        return self._state().get_task_by_token(tokens[0].decode()) if tokens else None

    async def _wait(self, task: Any) -> None:
        guard.took(guard.Way.ORDER)
        ends_at = asyncio.get_running_loop().time() + LONGEST_S
        with self._bells.listen([run_bell(task.run_id)]) as ear:
            while self._is_before(task):
                left_s = ends_at - asyncio.get_running_loop().time()
                if left_s <= 0 or not await ear.wait(left_s):
                    return

    def _is_before(self, task: Any) -> bool:
        """Whether another task of the run is still at work."""
        others = self._state().get_tasks(run_ids=[task.run_id], statuses=["running"])
        busy = any(other.task_id != task.task_id for other in others)
        return busy or bool(self._ending[task.run_id])

    def _state(self) -> Any:
        return self._served.state.runtime_state_factory.state()
