from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from umbel.flower.fast import ringing
from umbel.flower.fast.bells import Bells
from umbel.flower.fast.hold import node_bell, object_bell, reply_bell
from umbel.flower.fast.poke import Poker, drain, poked

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Contents, Link

TOUCHED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (SqlLinkState, ("store_message_and_object_tree", "store_object", "create_task", "create_run")),
    (InMemoryNodeState, ("store_message", "finish_task", "set_node_id")),
    (InMemoryObjectStore, ("put",)),
)


class Heard(Bells):
    """Bells that note what was rung."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def ring(self, name: str) -> None:
        self.names.append(name)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Flower is as before after each test."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for owner, names in TOUCHED:
            for name in names:
                monkeypatch.setattr(owner, name, getattr(owner, name))
        yield


@pytest.fixture
def bells() -> Heard:
    return Heard()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def node_state(bells: Heard, said: list[str]) -> Any:
    ringing.supernode(bells, lambda: said.append("changed"), lambda: said.append("poked"))
    return InMemoryNodeState(InMemoryObjectStore())


def test_a_superlink_rings_for_messages_replies_and_objects(
    link: Link, bells: Heard, contents: Contents
) -> None:
    ringing.superlink(bells, lambda: None)
    asked = link.made("hello")
    session = link.announced(asked)
    assert bells.names == [node_bell(link.site.node_id)]
    bells.names.clear()
    for object_id, content in contents(asked).items():
        link.state.store_object(link.run_id, session, object_id, content)
    assert bells.names == [object_bell(object_id) for object_id in contents(asked)]
    bells.names.clear()
    link.announced(link.made("there", reply_to=asked.metadata.message_id))
    assert bells.names == [reply_bell(asked.metadata.message_id)]


def test_a_superlink_does_not_ring_for_what_it_refuses(
    link: Link, bells: Heard, contents: Contents
) -> None:
    ringing.superlink(bells, lambda: None)
    asked = link.made("hello")
    (first, content), *_ = contents(asked).items()
    assert not link.state.store_object(link.run_id, "no session", first, content)
    assert bells.names == []


def test_a_superlink_pokes_for_a_run_and_for_a_task(link: Link, said: list[str]) -> None:
    ringing.superlink(Bells(), lambda: said.append("poked"))
    link.state.create_task(TaskType.SERVER_APP, link.run_id)
    assert said == ["poked"]


def test_a_supernode_pokes_for_a_message_and_tells_of_a_reply(
    link: Link, node_state: Any, said: list[str]
) -> None:
    asked = link.made("hello")
    node_state.store_message(asked)
    assert said == ["poked"]
    node_state.store_message(link.made("there", reply_to=asked.metadata.message_id))
    assert said == ["poked", "changed"]


def test_a_supernode_rings_for_an_object(
    link: Link, node_state: Any, bells: Heard, contents: Contents
) -> None:
    asked = link.made("hello")
    (first, content), *_ = contents(asked).items()
    node_state.object_store.preregister(link.run_id, get_object_tree(asked))
    node_state.object_store.put(first, content)
    assert bells.names == [object_bell(first)]


def test_a_failed_clientapp_is_answered_for(link: Link, node_state: Any) -> None:
    node_state.set_node_id(link.site.node_id)
    asked = link.made("hello")
    task_id = node_state.create_task(TaskType.CLIENT_APP, link.run_id)
    node_state.store_message(asked)
    assert node_state.claim_task(task_id)
    assert node_state.finish_task(task_id, "failed", "it fell over")
    (reply,) = node_state.get_messages_legacy(is_reply=True)
    assert reply.metadata.reply_to_message_id == asked.metadata.message_id
    assert reply.metadata.dst_node_id == SUPERLINK_NODE_ID
    assert reply.error.reason == "it fell over"


def test_a_clientapp_that_ended_well_is_not_answered_for(link: Link, node_state: Any) -> None:
    node_state.set_node_id(link.site.node_id)
    task_id = node_state.create_task(TaskType.CLIENT_APP, link.run_id)
    node_state.store_message(link.made("hello"))
    assert node_state.claim_task(task_id)
    node_state.activate_task(task_id)
    assert node_state.finish_task(task_id, "completed", "")
    assert list(node_state.get_messages_legacy(is_reply=True)) == []


def test_a_supernode_says_when_it_is_connected(said: list[str]) -> None:
    ringing.connected(lambda _: said.append("connected"))
    InMemoryNodeState(InMemoryObjectStore()).set_node_id(7)
    assert said == ["connected"]


class TestPoke:
    """An executor's socket."""

    def test_pokes_arrive_and_can_be_forgotten(self, tmp_path: Path) -> None:
        with poked(tmp_path / "wake") as listener:
            poke = Poker(tmp_path / "wake")
            poke()
            poke()
            assert listener.recv(16)
            drain(listener)
            with pytest.raises(BlockingIOError):
                listener.recv(16)
            poke._socket.close()

    def test_only_the_owner_can_poke(self, tmp_path: Path) -> None:
        with poked(tmp_path / "wake"):
            assert stat.S_IMODE((tmp_path / "wake").stat().st_mode) == 0o600

    def test_nobody_there_and_a_full_queue_are_no_harm(self, tmp_path: Path) -> None:
        poke = Poker(tmp_path / "wake")
        poke()
        with poked(tmp_path / "wake"):
            for _ in range(2000):
                poke()
        poke._socket.close()

    def test_a_socket_that_was_left_behind_is_replaced(self, tmp_path: Path) -> None:
        poked(tmp_path / "wake").close()
        with poked(tmp_path / "wake") as listener:
            poke = Poker(tmp_path / "wake")
            poke()
            assert listener.recv(16) == b"!"
            poke._socket.close()
