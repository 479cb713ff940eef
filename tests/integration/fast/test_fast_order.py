"""A SuperNode's tasks, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from flwr.supercore.constant import TASK_TOKEN_HEADER, TaskType
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from umbel.flower.fast import order
from umbel.flower.fast.asgi import Answer, Receive, Scope, Send, read_body
from umbel.flower.fast.bells import Bells
from umbel.flower.fast.order import INPUT, OUTPUT, InOrder

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Visit


class Node:
    """A SuperNode's real state, and an app that does with it what Flower's does."""

    def __init__(self) -> None:
        self.state: Any = InMemoryNodeState(InMemoryObjectStore())
        self.asked: list[tuple[str, str]] = []
        served = SimpleNamespace(
            state=SimpleNamespace(runtime_state_factory=SimpleNamespace(state=lambda: self.state))
        )
        self.app = InOrder(self._answer, served, Bells())
        self.may_end = asyncio.Event()
        self.may_end.set()

    def task(self, run_id: int) -> str:
        task_id = self.state.create_task(TaskType.CLIENT_APP, run_id)
        return str(self.state.claim_task(task_id))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        token = dict(scope["headers"])[TASK_TOKEN_HEADER.encode()].decode()
        self.asked.append((scope["path"], token))
        task = self.state.get_task_by_token(token)
        if scope["path"] == INPUT:
            self.state.activate_task(task.task_id)
        else:
            self.state.finish_task(task.task_id, "completed", "")
            await self.may_end.wait()  # here the context is saved
        await Answer(200, (), b"").send(send)


@pytest.fixture
def go(visit: type[Visit]) -> Callable[[Node, str, str], asyncio.Future[Any]]:
    """Ask as a task does."""

    def ask(node: Node, path: str, token: str) -> asyncio.Future[Any]:
        return asyncio.ensure_future(visit(path, b"", {TASK_TOKEN_HEADER: token}).pay(node.app))

    return ask


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_task_waits_for_the_output_of_the_one_before(go: Any) -> None:
    node = Node()
    first, second = node.task(7), node.task(7)
    await go(node, INPUT, first)
    node.may_end.clear()

    waiting = go(node, INPUT, second)
    await settled()
    assert not waiting.done()
    ending = go(node, OUTPUT, first)
    await settled()
    assert not waiting.done()  # the task has ended, but its context is not there yet
    node.may_end.set()
    await asyncio.gather(ending, waiting)

    assert node.asked == [(INPUT, first), (OUTPUT, first), (INPUT, second)]


async def test_a_task_of_another_run_does_not_wait(go: Any) -> None:
    node = Node()
    await go(node, INPUT, node.task(7))
    other = node.task(8)
    await go(node, INPUT, other)
    assert node.asked[-1] == (INPUT, other)


async def test_a_task_that_never_ends_stops_nobody_for_ever(
    go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "LONGEST_S", 0.01)
    node = Node()
    await go(node, INPUT, node.task(7))
    second = node.task(7)
    await go(node, INPUT, second)
    assert node.asked[-1] == (INPUT, second)


async def test_a_stranger_is_left_to_flower(go: Any) -> None:
    node = Node()
    asked: list[str] = []

    async def refuse(scope: Scope, _: Receive, send: Send) -> None:
        asked.append(scope["path"])
        await Answer(401, (), b"").send(send)

    node.app._app = refuse
    assert (await go(node, INPUT, "no token of ours")).status == 401
    assert asked == [INPUT]
