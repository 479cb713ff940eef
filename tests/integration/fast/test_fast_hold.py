from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from flwr.proto import fleet_pb2, message_pb2, node_pb2, runtime_pb2

from umbel.flower.fast.asgi import Answer, Receive, Scope, Send, read_body
from umbel.flower.fast.bells import Bells
from umbel.flower.fast.hold import Hold, node_bell, object_bell, reply_bell

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Visit

NODE_PULL = "/v1/fleet/pull-messages"
REPLY_PULL = "/v1/runtime/pull-messages"
OBJECT_PULLS = ("/v1/fleet/pull-object", "/v1/runtime/pull-object")
OBJECT_ID = "ab" * 32
SHORT_S = 0.02
PROTOBUF = ((b"content-type", b"application/protobuf"),)


class Inner:
    """An app that answers as it is told, and says when it was asked."""

    def __init__(self, answers: Callable[[bytes], Answer]) -> None:
        self.answers = answers
        self.asked: list[bytes] = []
        self.paths: list[str] = []
        self._came = asyncio.Condition()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        async with self._came:
            self.asked.append(body or b"")
            self.paths.append(scope["path"])
            self._came.notify_all()
        await self.answers(body or b"").send(send)

    async def was_asked(self, times: int) -> None:
        async with self._came:
            await self._came.wait_for(lambda: len(self.asked) >= times)


def ok(body: bytes) -> Answer:
    return Answer(200, PROTOBUF, body)


def node_request(node_id: int = 7) -> bytes:
    request: Any = fleet_pb2.PullMessagesRequest(node=node_pb2.Node(node_id=node_id))
    return bytes(request.SerializeToString())


def object_request() -> bytes:
    return bytes(message_pb2.PullObjectRequest(object_id=OBJECT_ID).SerializeToString())


def reply_request(*ids: str) -> bytes:
    return bytes(runtime_pb2.PullAppMessagesRequest(message_ids=ids).SerializeToString())


class Replies:
    """Gives each reply once, as a ServerApp's pull does."""

    def __init__(self, *ready: str) -> None:
        self.ready = set(ready)

    def __call__(self, body: bytes) -> Answer:
        wanted = set(runtime_pb2.PullAppMessagesRequest.FromString(body).message_ids)
        answer: Any = runtime_pb2.PullAppMessagesResponse()
        for message_id in sorted(wanted & self.ready):
            answer.messages_list.add().metadata.reply_to_message_id = message_id
            answer.message_object_trees.add().object_id = message_id
        self.ready -= wanted
        return ok(answer.SerializeToString())


def replied(body: bytes) -> list[str]:
    answer: Any = runtime_pb2.PullAppMessagesResponse.FromString(body)
    ids = [m.metadata.reply_to_message_id for m in answer.messages_list]
    assert ids == [tree.object_id for tree in answer.message_object_trees]
    return ids


async def test_a_nodes_pull_is_answered_when_its_bell_rings(visit: type[Visit]) -> None:
    bells, inner = Bells(), Inner(lambda _: ok(b""))
    pull = asyncio.create_task(visit(NODE_PULL, node_request()).pay(Hold(inner, bells)))
    await inner.was_asked(1)
    inner.answers = lambda _: ok(b"message")
    bells.ring(node_bell(8))
    bells.ring(node_bell(7))
    seen = await pull
    assert (seen.status, seen.body, seen.kind) == (200, b"message", "application/protobuf")
    assert inner.asked == [node_request()] * 2
    assert bells._ears == {}


async def test_a_bell_that_rings_while_the_app_is_asked_is_not_missed(visit: type[Visit]) -> None:
    bells = Bells()
    answers = [ok(b"message"), ok(b"")]

    def answer(_: bytes) -> Answer:
        bells.ring(node_bell(7))  # stored just after the app had looked
        return answers.pop()

    assert (await visit(NODE_PULL, node_request()).pay(Hold(Inner(answer), bells))).body


async def test_a_ring_for_nothing_is_waited_out(visit: type[Visit]) -> None:
    bells, inner = Bells(), Inner(lambda _: ok(b""))
    pull = asyncio.create_task(visit(NODE_PULL, node_request()).pay(Hold(inner, bells)))
    for times in (1, 2, 3):
        await inner.was_asked(times)
        assert not pull.done()
        bells.ring(node_bell(7))
    inner.answers = lambda _: ok(b"message")
    bells.ring(node_bell(7))
    assert (await pull).body == b"message"


async def test_after_the_limit_the_answer_is_empty(visit: type[Visit]) -> None:
    inner = Inner(lambda _: ok(b""))
    seen = await visit(NODE_PULL, node_request()).pay(Hold(inner, Bells(), SHORT_S))
    assert (seen.status, seen.body, seen.whole) == (200, b"", True)
    assert len(inner.asked) == 2


@pytest.mark.parametrize("path", OBJECT_PULLS)
async def test_an_object_that_is_not_there_yet_is_waited_for(visit: type[Visit], path: str) -> None:
    assert message_pb2.PullObjectResponse(object_found=True).SerializeToString() == b"\x08\x01"
    bells, inner = Bells(), Inner(lambda _: ok(b"\x08\x01"))
    pull = asyncio.create_task(visit(path, object_request()).pay(Hold(inner, bells)))
    await inner.was_asked(1)
    inner.answers = lambda _: ok(b"\x08\x01\x10\x01content")
    bells.ring(object_bell(OBJECT_ID))
    assert (await pull).body == b"\x08\x01\x10\x01content"


@pytest.mark.parametrize("path", OBJECT_PULLS)
async def test_an_object_that_nobody_knows_is_not_waited_for(visit: type[Visit], path: str) -> None:
    inner = Inner(lambda _: ok(b""))
    assert (await visit(path, object_request()).pay(Hold(inner, Bells()))).whole
    assert len(inner.asked) == 1


async def test_replies_that_come_one_by_one_are_given_together(visit: type[Visit]) -> None:
    bells, replies = Bells(), Replies("a")
    inner = Inner(replies)
    request = visit(REPLY_PULL, reply_request("a", "b", "c"))
    pull = asyncio.create_task(request.pay(Hold(inner, bells)))
    for times, message_id in ((1, "c"), (2, "b")):
        await inner.was_asked(times)
        replies.ready.add(message_id)
        bells.ring(reply_bell(message_id))
    assert replied((await pull).body) == ["a", "c", "b"]
    assert inner.asked[1:] == [reply_request("b", "c"), reply_request("b")]


async def test_what_came_before_the_limit_is_given_then(visit: type[Visit]) -> None:
    hold = Hold(Inner(Replies("a")), Bells(), SHORT_S)
    assert replied((await visit(REPLY_PULL, reply_request("a", "b")).pay(hold)).body) == ["a"]


async def test_a_pull_of_no_ids_is_not_held(visit: type[Visit]) -> None:
    inner = Inner(lambda _: ok(b""))
    assert (await visit(REPLY_PULL, reply_request()).pay(Hold(inner, Bells()))).whole
    assert inner.asked == [b""]


async def test_replies_that_were_claimed_survive_an_error_after_them(visit: type[Visit]) -> None:
    bells, inner = Bells(), Inner(Replies("a"))
    request = visit(REPLY_PULL, reply_request("a", "b"))
    pull = asyncio.create_task(request.pay(Hold(inner, bells)))
    await inner.was_asked(1)
    inner.answers = lambda _: Answer(500, ((b"content-type", b"application/json"),), b"{}")
    bells.ring(reply_bell("b"))
    seen = await pull
    assert (seen.status, seen.kind) == (200, "application/protobuf")
    assert replied(seen.body) == ["a"]


@pytest.mark.parametrize("status", [400, 401, 403, 500, 503])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (NODE_PULL, node_request()),
        (REPLY_PULL, reply_request("a")),
        (OBJECT_PULLS[0], object_request()),
        (OBJECT_PULLS[1], object_request()),
    ],
)
async def test_an_error_passes_at_once(
    visit: type[Visit], path: str, body: bytes, status: int
) -> None:
    inner = Inner(lambda _: Answer(status, (), b""))
    seen = await visit(path, body).pay(Hold(inner, Bells()))
    assert (seen.status, seen.body, len(inner.asked)) == (status, b"", 1)


@pytest.mark.parametrize("path", [NODE_PULL, REPLY_PULL, *OBJECT_PULLS])
async def test_the_app_itself_judges_a_body_that_is_no_request(
    visit: type[Visit], path: str
) -> None:
    inner = Inner(lambda _: Answer(400, (), b"bad"))
    seen = await visit(path, b"\xff\xff").pay(Hold(inner, Bells()))
    assert (seen.status, seen.body, inner.asked) == (400, b"bad", [b"\xff\xff"])


@pytest.mark.parametrize("path", ["/", "/v1/fleet/push-messages", "/v1/fleet/pull-messages/"])
async def test_other_paths_pass_untouched(visit: type[Visit], path: str) -> None:
    inner = Inner(lambda _: ok(b""))
    assert (await visit(path, b"\xff\xff").pay(Hold(inner, Bells()))).whole
    assert (inner.paths, inner.asked) == ([path], [b"\xff\xff"])


async def test_what_is_not_http_passes_untouched() -> None:
    came: list[Any] = []

    async def app(*all_three: Any) -> None:
        came.append(all_three)

    asked: tuple[Any, Any, Any] = ({"type": "lifespan"}, None, None)
    await Hold(app, Bells())(*asked)
    assert came == [asked]


async def test_a_client_that_leaves_ends_the_waiting(visit: type[Visit]) -> None:
    bells, inner = Bells(), Inner(lambda _: ok(b""))
    request = visit(NODE_PULL, node_request())
    pull = asyncio.create_task(request.pay(Hold(inner, bells)))
    await inner.was_asked(1)
    request.left.set()
    assert not (await pull).whole
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)
    assert bells._ears == {}
    assert len(inner.asked) == 1


async def test_a_client_that_is_gone_before_it_asked_is_not_answered() -> None:
    inner = Inner(lambda _: ok(b""))

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        pytest.fail("there is nobody to answer")

    await Hold(inner, Bells())({"type": "http", "path": NODE_PULL}, gone, send)
    assert inner.asked == []
