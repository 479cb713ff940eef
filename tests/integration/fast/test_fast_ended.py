"""A SuperNode does not wait for a reply that nobody wants any more."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from flwr.app import Error, Message
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.run import RunNotRunningException
from flwr.supernode import start_client_internal as loop
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from umbel.flower import ended

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Link


class Site:
    """A SuperNode's state with a message in work, and its SuperLink's answers to questions."""

    def __init__(self, link: Link) -> None:
        self.store = InMemoryObjectStore()
        self.state = InMemoryNodeState(self.store)
        self.state.set_node_id(link.site.node_id)
        self.message = link.made("hello")
        self.run_id = link.run_id
        self.answers: list[BaseException | None] = []
        self.sent: list[str] = []
        self.stopped = False  # while the message arrives

    def receive(self) -> tuple[Any, Any]:
        return self.message, get_object_tree(self.message)

    def get_run(self, run_id: int) -> None:
        assert run_id == self.run_id
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer

    def pulls(self) -> Any:
        """Take the message up, as Flower's loop does."""
        return loop._pull_and_store_message(
            state=self.state, object_store=self.store, receive=self.receive, get_run=self.get_run
        )

    def replies(self, to: Any) -> None:
        """Have the reply to a message in the state, as its ClientApp leaves it."""
        reply = Message(Error(code=0, reason=""), reply_to=to)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        self.store.preregister(self.run_id, get_object_tree(reply))
        self.state.record_message_processing_start(to.metadata.message_id)
        self.state.record_message_processing_end(to.metadata.message_id)
        self.state.store_message(reply)

    def sends(self, message: Any, *_more: Any) -> tuple[set[str], str]:
        self.sent.append(message.metadata.reply_to_message_id)
        return set(), ""

    def pushes(self) -> None:
        loop._push_messages(
            state=self.state, object_store=self.store, send=self.sends, push_object=None
        )

    def tasks(self) -> list[tuple[str, str]]:
        found = self.state.get_tasks(run_ids=[self.run_id])
        return [(task.status.status, task.status.sub_status) for task in found]


@pytest.fixture
def site(link: Link, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(link)

    def stored(state: Any, receive: Callable[[], Any], **_how: Any) -> int | None:
        message, _ = receive()
        state.create_task(task_type="flwr-clientapp", run_id=made.run_id, fab_hash="")
        state.store_message(message)
        return None if made.stopped else made.run_id

    monkeypatch.setattr(loop, "_pull_and_store_message", stored)
    monkeypatch.setattr(loop, "_push_messages", loop._push_messages)
    monkeypatch.setattr(loop, "time", SimpleNamespace(sleep=lambda _seconds: None))
    monkeypatch.setattr(ended, "ASK_S", 0.0)
    ended.install()
    return made


def test_what_nobody_waits_for_is_given_up(site: Site) -> None:
    site.answers = [None, httpx.ConnectError("away"), None, RunNotRunningException()]
    site.pulls()
    site.pushes()
    assert site.answers == []
    assert site.tasks() == [("finished", "stopped")]
    assert not site.state.msg_store


def test_a_run_that_is_stopped_while_its_message_arrives_leaves_nothing(site: Site) -> None:
    site.stopped = True
    assert site.pulls() is None
    assert site.tasks() == [("finished", "stopped")]
    assert not site.state.msg_store


def test_a_reply_that_nobody_waits_for_is_not_taken_for_the_one_that_is(
    site: Site, link: Link
) -> None:
    stray = link.made("stray")

    def answer(_run_id: int) -> None:
        """Be asked while it waits on: now its own reply comes."""
        if stray.metadata.message_id in site.sent and len(site.sent) == 1:
            site.replies(to=site.message)

    site.get_run = answer  # type: ignore[method-assign, assignment]
    assert site.pulls() == site.run_id
    site.replies(to=stray)
    site.pushes()
    assert site.sent == [stray.metadata.message_id, site.message.metadata.message_id]


def test_who_waits_for_no_reply_asks_nobody(site: Site) -> None:
    loop.time.sleep(3)  # before the first message
    site.answers = [RunNotRunningException()]
    site.pulls()
    loop.time.sleep(3)
    assert len(site.answers) == 1
    site.pushes()
    loop.time.sleep(3)  # and between messages


def refused(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "https://node/")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(status))


@pytest.fixture
def interrupted() -> Iterator[list[int]]:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    yield heard
    signal.signal(signal.SIGINT, before)


def beating(answer: BaseException | bool) -> Callable[[], bool]:
    """Give the heartbeat of an app that is answered so."""

    def beat() -> bool:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    module = SimpleNamespace(make_task_heartbeat_fn_http=lambda _client: beat)
    ended.mind_refusals(module)
    made: Callable[[], bool] = module.make_task_heartbeat_fn_http(None)
    return made


@pytest.mark.parametrize("status", [401, 403])
def test_an_app_that_is_refused_ends(interrupted: list[int], status: int) -> None:
    assert beating(refused(status))() is True
    assert interrupted == [signal.SIGINT]


def test_an_app_that_is_heard_or_not_understood_goes_on(interrupted: list[int]) -> None:
    assert beating(True)() is True
    assert beating(False)() is False
    with pytest.raises(httpx.HTTPStatusError):
        beating(refused(404))()
    assert interrupted == []
