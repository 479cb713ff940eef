"""A SuperNode does not wait for a reply that nobody wants any more."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
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

    def receive(self) -> tuple[Any, Any]:
        return self.message, get_object_tree(self.message)

    def get_run(self, run_id: int) -> None:
        assert run_id == self.run_id
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer

    def pulls(self) -> None:
        """Take the message up, as Flower's loop does."""
        pulled = loop._pull_and_store_message(
            state=self.state, receive=self.receive, get_run=self.get_run
        )
        assert pulled == self.run_id

    def pushes(self) -> None:
        loop._push_messages(state=self.state, object_store=self.store, send=None, push_object=None)


@pytest.fixture
def site(link: Link, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(link)

    def stored(state: Any, receive: Callable[[], Any], **_how: Any) -> int:
        message, _ = receive()
        state.create_task(task_type="flwr-clientapp", run_id=made.run_id, fab_hash="")
        state.store_message(message)
        return made.run_id

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
    (task,) = site.state.get_tasks(run_ids=[site.run_id])
    assert (task.status.status, task.status.sub_status) == ("finished", "stopped")
    assert not site.state.msg_store


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
