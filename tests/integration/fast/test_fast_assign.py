"""A SuperNode's real app and state: who asks for a task gets one of its own, or none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from flwr.app import ConfigRecord, RecordDict
from flwr.app.message.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.runtime_pb2 import AcquireTaskRequest, AcquireTaskResponse
from flwr.supercore.auth import create_superexec_auth_metadata, derive_auth_secret
from flwr.supercore.constant import TaskType
from flwr.supercore.date import now
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata
from flwr.supernode.main import create_app
from flwr.supernode.nodestate import NodeStateFactory

from umbel.flower.environments import HEADER, all_served, secret_of
from umbel.flower.fast import assign
from umbel.flower.fast.assign import ACQUIRE, METHOD, Assign
from umbel.flower.fast.bells import Bells

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Seen, Visit

OWN, MASTER = b"o" * 32, b"m" * 32
APPS = {"vision": "clinic/vision", "text": "clinic/text"}
EVERY = [TaskType.CLIENT_APP, TaskType.SERVER_APP]


class Node:
    """A SuperNode with two environments, and messages of runs."""

    def __init__(self, visit: type[Visit]) -> None:
        factory = NodeStateFactory(objectstore_factory=ObjectStoreFactory())
        self.state: Any = factory.state()
        self.state.set_node_id(7)
        served = create_app(state_factory=factory, superexec_auth_secret=OWN)
        self.bells = Bells()
        self.app = Assign(served, served, self.bells, all_served(MASTER, APPS))
        self._visit = visit

    def run(self, run_id: int, app: str) -> None:
        run = Run.create_empty(run_id)
        run.fab_id = app
        self.state.store_run(run)

    def task(self, run_id: int, *, message: bool = True) -> int:
        made = self.state.create_task(TaskType.CLIENT_APP, run_id)
        if message:
            self.message(run_id)
        return int(made)

    def message(self, run_id: int) -> None:
        meta = Metadata(
            run_id=run_id, message_id="", src_node_id=SUPERLINK_NODE_ID, dst_node_id=7,
            reply_to_message_id="", group_id="", created_at=now().timestamp(), ttl=100.0,
            message_type="train",
        )  # fmt: skip
        content = RecordDict({"c": ConfigRecord({"n": str(len(self.state.msg_store))})})
        message = make_message(meta, content)
        message.metadata.__dict__["_message_id"] = message.object_id
        self.state.store_message(message)
        self.app.arrived()

    async def ask(self, name: str | None, secret: bytes, types: list[str] | None = None) -> Seen:
        request = AcquireTaskRequest(supported_task_types=EVERY if types is None else types)
        signed = create_superexec_auth_metadata(
            auth_secret=derive_auth_secret(secret), method=METHOD, request=request
        )
        headers = {
            "content-type": "application/protobuf",
            **dict(RuntimeVersionMetadata.from_local_component("SuperExec").as_metadata()),
            **signed,
            **({HEADER: name} if name is not None else {}),
        }
        visit = self._visit(ACQUIRE, request.SerializeToString(deterministic=True), headers)
        return await visit.pay(self.app)

    async def gets(self, name: str | None, secret: bytes | None = None) -> int:
        """Give the id of the task that this executor gets; 0: none."""
        seen = await self.ask(name, secret or (secret_of(MASTER, name) if name else OWN))
        assert seen.status == 200, seen
        return int(AcquireTaskResponse.FromString(seen.body).task.task_id)


@pytest.fixture
async def node(visit: type[Visit]) -> Node:
    made = Node(visit)
    made.run(1, "clinic/vision")
    made.run(2, "clinic/text")
    made.run(3, "clinic/other")
    return made


async def test_everybody_gets_the_tasks_of_their_own_apps(node: Node) -> None:
    vision, text, other = node.task(1), node.task(2), node.task(3)
    assert await node.gets("text") == text
    assert await node.gets("text") == 0
    assert await node.gets(None) == other
    assert await node.gets(None) == 0
    assert await node.gets("vision") == vision
    assert await node.gets("vision") == 0


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("text", secret_of(MASTER, "vision")),  # another environment's
        ("text", OWN),  # that of the pod's own executor
        (None, secret_of(MASTER, "text")),  # an environment's, which says nothing of itself
        ("speech", secret_of(MASTER, "speech")),  # not declared
        ("", OWN),
    ],
)
async def test_who_signs_with_another_secret_gets_nothing(
    node: Node, name: str | None, secret: bytes
) -> None:
    for run in (1, 2, 3):
        node.task(run)
    seen = await node.ask(name, secret)
    assert seen.status == 401
    assert len(node.state.get_tasks(statuses=["pending"])) == 3


async def test_a_task_is_given_when_its_message_is_there(node: Node) -> None:
    task = node.task(1, message=False)
    assert await node.gets("vision") == 0
    node.message(1)
    assert await node.gets("vision") == task


async def test_who_only_asks_when_is_answered_with_the_message(node: Node) -> None:
    node.task(2)  # of another app: no reason to answer
    asking = asyncio.ensure_future(node.ask("vision", secret_of(MASTER, "vision"), []))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asking.done()
    node.task(1)
    seen = await asyncio.wait_for(asking, 10)
    assert (seen.status, seen.body) == (200, b"")
    assert len(node.state.get_tasks(statuses=["pending"])) == 2  # nothing is claimed


async def test_a_stranger_cannot_wait_either(node: Node) -> None:
    assert (await node.ask("vision", OWN, [])).status == 401


async def test_a_task_that_nobody_can_take_fails_with_the_reason(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assign, "PATIENCE_S", 0.05)
    monkeypatch.setattr(assign, "LOOK_S", 0.01)
    other, vision = node.task(3), node.task(1)
    ended = await asyncio.to_thread(until, lambda: status(node, vision) == "finished")
    assert ended
    assert "no environment of clinic/vision" in details(node, vision)
    assert status(node, other) == "pending"  # the pod's own executor may be slow


def until(holds: Callable[[], bool]) -> bool:
    pause = threading.Event()
    return any(holds() or pause.wait(0.02) for _ in range(500))


def status(node: Node, task_id: int) -> str:
    (task,) = node.state.get_tasks(task_ids=[task_id])
    return str(task.status.status)


def details(node: Node, task_id: int) -> str:
    (task,) = node.state.get_tasks(task_ids=[task_id])
    return str(task.status.details)
