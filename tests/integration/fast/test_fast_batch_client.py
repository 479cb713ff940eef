"""Flower's own client, with batches, against Flower's own app in this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto import message_pb2, node_pb2
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.retry import make_simple_http_retry_invoker

from umbel.flower.fast import batch_client, parts

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Contents, Link, Served, Visit

PATCHED = (
    "flwr.supercore.inflatable.inflatable_utils",
    "flwr.superlink.grid.http_grid",
    "flwr.supernode.start_client_internal",
)
PULL, PUSH = "/v1/runtime/pull-object", "/v1/runtime/push-object"


class InProcess(httpx.BaseTransport):
    """Takes requests to an app in this process, and counts them."""

    def __init__(self, app: Any, visit: type[Visit]) -> None:
        self._app = app
        self._visit = visit
        self.paths: Counter[str] = Counter()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.paths[request.url.path] += 1
        body, headers = request.read(), dict(request.headers)

        async def pay() -> httpx.Response:
            seen = await self._visit(request.url.path, body, headers).pay(self._app)
            return httpx.Response(
                seen.status, headers={"content-type": seen.kind}, content=seen.body
            )

        return asyncio.run(pay())


class Caller:
    """A ServerApp's client."""

    def __init__(self, link: Link, transport: InProcess) -> None:
        self._link = link
        self._client = ProtobufClient("http://test")
        self._client._client.close()
        self._client._client = httpx.Client(transport=transport, headers=link.token_headers)
        self._node = node_pb2.Node(node_id=SUPERLINK_NODE_ID)
        self.paths = transport.paths

    def _ask(self, path: str, kind: Any) -> Any:
        return lambda request: self._client._unary_unary(
            path=path, rpc_method="test", request=request, response_type=kind
        )

    def pull(self, ids: list[str], **limits: Any) -> dict[str, bytes]:
        """Pull as Flower does."""
        ask = self._ask(PULL, message_pb2.PullObjectResponse)
        pull_one = make_pull_object_fn_protobuf(ask, self._node, self._link.run_id)
        pulled: dict[str, bytes] = inflatable_utils.pull_objects(ids, pull_one, **limits)
        return pulled

    def push(self, objects: dict[str, bytes], session: str) -> None:
        """Push as Flower does."""
        ask = self._ask(PUSH, message_pb2.PushObjectResponse)
        push_one = make_push_object_fn_protobuf(ask, self._node, self._link.run_id, session)
        inflatable_utils.push_object_contents_from_iterable(objects.items(), push_one)

    def close(self) -> None:
        self._client.close()


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are sent in this test, and only in this one."""
    monkeypatch.setattr(ProtobufClient, "_unary_unary", ProtobufClient._unary_unary)
    for name in PATCHED:
        module = import_module(name)
        for function in ("pull_objects", "push_object_contents_from_iterable"):
            if hasattr(module, function):
                monkeypatch.setattr(module, function, getattr(module, function))
    monkeypatch.setattr(batch_client, "_no_batches", set())
    batch_client.install()


@pytest.fixture
def caller(served: Served, visit: type[Visit]) -> Iterator[Caller]:
    made = Caller(served.link, InProcess(served.quick, visit))
    yield made
    made.close()


@pytest.fixture
def stock_caller(served: Served, visit: type[Visit]) -> Iterator[Caller]:
    """One whose server knows no batches."""
    made = Caller(served.link, InProcess(served.app, visit))
    yield made
    made.close()


def test_objects_are_pushed_and_pulled_in_one_request_each(
    served: Served, caller: Caller, contents: Contents
) -> None:
    message = served.link.made("there and back")
    objects = contents(message)
    caller.push(objects, served.link.announced(message))
    assert caller.pull(list(objects)) == objects
    assert caller.paths == {parts.RUNTIME: 2}


def test_a_server_without_batches_is_asked_singly_for_good(
    served: Served, stock_caller: Caller, contents: Contents
) -> None:
    message = served.link.made("the usual way")
    objects = contents(message)
    stock_caller.push(objects, served.link.announced(message))
    assert stock_caller.pull(list(objects)) == objects
    assert stock_caller.pull(list(objects)) == objects
    count = len(objects)
    assert stock_caller.paths == {parts.RUNTIME: 1, PUSH: count, PULL: 2 * count}


def test_large_objects_go_singly(served: Served, caller: Caller, contents: Contents) -> None:
    message = served.link.made(ArrayRecord([np.zeros(batch_client.SMALL_BYTES // 8)]))
    objects = contents(message)
    large = [c for c in objects.values() if len(c) > batch_client.SMALL_BYTES]
    assert 0 < len(large) < len(objects) - 1
    caller.push(objects, served.link.announced(message))
    assert caller.paths == {parts.RUNTIME: 1, PUSH: len(large)}
    assert caller.pull(list(objects)) == objects


def test_many_objects_go_in_several_batches(
    served: Served, caller: Caller, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_client, "BATCH_PARTS", 3)
    message = served.link.made(ArrayRecord([np.full(4, n) for n in range(5)]))
    objects = contents(message)
    assert len(objects) > 9
    caller.push(objects, served.link.announced(message))
    assert caller.pull(list(objects)) == objects
    assert set(caller.paths) <= {parts.RUNTIME, PUSH, PULL}
    assert caller.paths[parts.RUNTIME] >= 2 * (len(objects) // 3)


def test_one_object_needs_no_batch(served: Served, caller: Caller, contents: Contents) -> None:
    message = served.link.made("just one of them")
    (first, content), *_ = contents(message).items()
    caller.push({first: content}, served.link.announced(message))
    assert caller.pull([first]) == {first: content}
    assert caller.paths == {PUSH: 1, PULL: 1}


def test_an_object_that_nobody_knows_fails_as_in_flower(
    served: Served, caller: Caller, stock_caller: Caller, contents: Contents
) -> None:
    message = served.link.made("known")
    objects = contents(message)
    caller.push(objects, served.link.announced(message))
    for each in (caller, stock_caller):
        with pytest.raises(ObjectPullError):
            each.pull([*objects, "ab" * 32])


def test_a_push_without_its_session_fails_as_in_flower(
    served: Served, caller: Caller, stock_caller: Caller, contents: Contents
) -> None:
    message = served.link.made("without a session")
    served.link.announced(message)
    for each in (caller, stock_caller):
        with pytest.raises(ObjectPushError):
            each.push(contents(message), "another session")


def test_a_caller_with_a_wrong_token_fails_as_in_flower(
    served: Served, caller: Caller, stock_caller: Caller, contents: Contents
) -> None:
    message = served.link.made("not for strangers")
    served.link.announced(message)
    for each in (caller, stock_caller):
        each._client._client.headers["flwr-task-token"] = "0" * 64
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            each.pull(list(contents(message)))


def test_what_comes_late_is_pulled_with_flowers_own_patience(
    served: Served, caller: Caller, contents: Contents
) -> None:
    message = served.link.made("one part is missing")
    session = served.link.announced(message)
    objects = contents(message)
    *there, missing = objects
    for object_id in there:
        assert served.link.state.store_object(
            served.link.run_id, session, object_id, objects[object_id]
        )
    with pytest.raises(ObjectPullError, match=missing):
        caller.pull(list(objects), max_tries_per_object=2, initial_backoff=0.001)
    assert served.link.state.store_object(served.link.run_id, session, missing, objects[missing])
    assert caller.pull(list(objects)) == objects


class Shaky(InProcess):
    """A way to the server that is broken now and then: every other batch does not get through."""

    def __init__(self, app: Any, visit: type[Visit], status: int) -> None:
        super().__init__(app, visit)
        self._status = status

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == parts.RUNTIME and self.paths[parts.RUNTIME] % 2 == 0:
            self.paths[parts.RUNTIME] += 1
            if not self._status:
                raise httpx.ReadError("the gate is gone")
            return httpx.Response(self._status)
        return super().handle_request(request)


class Patient(Caller):
    """A SuperNode's client: it repeats each request from outside, as Flower's connection does."""

    def _ask(self, path: str, kind: Any) -> Any:
        invoker = make_simple_http_retry_invoker()
        invoker.wait_function = lambda _: None
        ask = super()._ask(path, kind)
        return lambda request: invoker.invoke(ask, request)


@pytest.mark.parametrize("status", [0, 502, 503, 504])
def test_a_batch_that_does_not_get_through_costs_nothing(
    served: Served, visit: type[Visit], contents: Contents, status: int
) -> None:
    """A SuperNode gives a reply up whose upload failed, and the round waits for 180 s."""
    caller = Patient(served.link, Shaky(served.quick, visit, status))
    message = served.link.made(f"a shaky way {status}")
    objects = contents(message)
    caller.push(objects, served.link.announced(message))
    caller.paths[parts.RUNTIME] = 0
    assert caller.pull(list(objects)) == objects
    caller.close()
