"""A batch is what its parts would be one by one: same checks, same answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto import message_pb2, node_pb2

from umbel.flower.fast import batch as batch_module
from umbel.flower.fast import parts
from umbel.flower.fast.batch import Batch
from umbel.flower.fast.hold import NOT_YET, object_bell

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Contents, Link, Served, Site, Visit

PUSH, PULL = range(2)
SUPERLINK = node_pb2.Node(node_id=SUPERLINK_NODE_ID)
STORED = message_pb2.PushObjectResponse(stored=True).SerializeToString()


def pulls(link: Link, ids: list[str], node: Any = SUPERLINK) -> list[tuple[int, bytes]]:
    return [
        (PULL, message_pb2.PullObjectRequest(
            node=node, run_id=link.run_id, object_id=object_id).SerializeToString())
        for object_id in ids
    ]  # fmt: skip


def pushes(
    link: Link, session: str, objects: dict[str, bytes], node: Any = SUPERLINK
) -> list[tuple[int, bytes]]:
    return [
        (PUSH, message_pb2.PushObjectRequest(
            node=node, run_id=link.run_id, object_id=object_id, object_content=content,
            session_id=session).SerializeToString())
        for object_id, content in objects.items()
    ]  # fmt: skip


async def singly(
    visit: type[Visit], app: Any, wanted: list[tuple[int, bytes]], headers: dict[str, str]
) -> list[tuple[int, bytes]]:
    """Ask for each part by itself, the usual way."""
    api = parts.FLEET if "flwr-signature" in headers else parts.RUNTIME
    answers = [
        await visit(parts.route_path(api, number), body, headers).pay(app)
        for number, body in wanted
    ]
    return [(answer.status, answer.body) for answer in answers]


def signing(link: Link, who: Site | None) -> tuple[str, dict[str, str]]:
    """Give the path of the batch and what to send along."""
    if who is None:
        return parts.RUNTIME, link.token_headers
    return parts.FLEET, who.headers()


@pytest.mark.parametrize("api", ["fleet", "runtime"])
async def test_pulls_in_a_batch_are_answered_as_single_ones(
    served: Served, visit: type[Visit], contents: Contents, api: str
) -> None:
    link = served.link
    who = link.site if api == "fleet" else None
    message = link.made(f"pulled through {api}")
    session = link.announced(message)
    for object_id, content in contents(message).items():
        assert link.state.store_object(link.run_id, session, object_id, content)
    ids = [*contents(message), "ab" * 32]  # the last is one that nobody knows
    wanted = pulls(link, ids, who.node if who else SUPERLINK)
    path, headers = signing(link, who)
    seen = await visit(path, parts.pack(wanted), headers).pay(served.quick)
    assert (seen.status, seen.kind) == (200, parts.MEDIA)
    rows = parts.unpack(seen.body)
    assert rows == await singly(visit, served.app, wanted, headers)
    got = [message_pb2.PullObjectResponse.FromString(body).object_content for _, body in rows]
    assert got == [*contents(message).values(), b""]


@pytest.mark.parametrize("api", ["fleet", "runtime"])
async def test_pushes_in_a_batch_are_stored(
    served: Served, visit: type[Visit], contents: Contents, api: str
) -> None:
    link = served.link
    who = link.site if api == "fleet" else None
    asked = link.stored(f"asked through {api}")
    message = link.made(f"pushed through {api}", reply_to=asked if who else "")
    wanted = pushes(
        link, link.announced(message), contents(message), who.node if who else SUPERLINK
    )
    path, headers = signing(link, who)
    seen = await visit(path, parts.pack(wanted), headers).pay(served.quick)
    assert parts.unpack(seen.body) == [(200, STORED)] * len(wanted)
    for object_id, content in contents(message).items():
        assert link.state.get_object(link.run_id, object_id) == content
    again = await visit(path, parts.pack(wanted), headers).pay(served.quick)
    assert parts.unpack(again.body) == await singly(visit, served.app, wanted, headers)


async def test_an_object_that_is_not_there_yet_is_left_for_later(
    served: Served, visit: type[Visit], contents: Contents
) -> None:
    link, message = served.link, served.link.made("half of it")
    session = link.announced(message)
    (first, content), *_ = contents(message).items()
    assert link.state.store_object(link.run_id, session, first, content)
    wanted = pulls(link, list(contents(message)))
    seen = await visit(parts.RUNTIME, parts.pack(wanted), link.token_headers).pay(served.quick)
    (status, body), *rest = parts.unpack(seen.body)
    assert status == 200
    assert message_pb2.PullObjectResponse.FromString(body).object_content == content
    assert rest == [(parts.LATER, b"")] * len(rest)
    assert rest


async def test_a_batch_of_which_nothing_is_there_is_held_until_the_bell_rings(
    served: Served, visit: type[Visit], contents: Contents
) -> None:
    link, message = served.link, served.link.made("none of it")
    session = link.announced(message)
    (first, content), *_ = contents(message).items()
    request = visit(
        parts.RUNTIME, parts.pack(pulls(link, list(contents(message)))), link.token_headers
    )
    pull = asyncio.create_task(request.pay(served.quick))
    while not served.bells._ears:
        await asyncio.wait([pull], timeout=0.001)
    assert link.state.store_object(link.run_id, session, first, content)
    served.bells.ring(object_bell(first))
    rows = parts.unpack((await pull).body)
    assert [status for status, _ in rows] == [200] + [parts.LATER] * (len(rows) - 1)
    assert served.bells._ears == {}


async def test_after_the_limit_a_held_batch_says_not_yet(
    served: Served, visit: type[Visit], contents: Contents
) -> None:
    link, message = served.link, served.link.made("none of it in time")
    link.announced(message)
    wanted = pulls(link, list(contents(message)))
    short = Batch(served.quick._shortcut, served.bells, hold_s=0.01)
    seen = await visit(parts.RUNTIME, parts.pack(wanted), link.token_headers).pay(short)
    assert parts.unpack(seen.body) == [(200, NOT_YET)] * len(wanted)


async def test_a_batch_goes_out_when_it_is_large_enough(
    served: Served, visit: type[Visit], contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "ENOUGH_BYTES", 1)
    link, message = served.link, served.link.made("enough of it")
    session = link.announced(message)
    for object_id, content in contents(message).items():
        assert link.state.store_object(link.run_id, session, object_id, content)
    wanted = pulls(link, list(contents(message)))
    seen = await visit(parts.RUNTIME, parts.pack(wanted), link.token_headers).pay(served.quick)
    assert [status for status, _ in parts.unpack(seen.body)] == [200, parts.LATER, parts.LATER]


@pytest.mark.parametrize("number", [PUSH, PULL])
async def test_a_batch_of_a_stranger_is_refused_as_a_single_request(
    served: Served, visit: type[Visit], number: int
) -> None:
    link, other = served.link, served.link.joined()
    kind = message_pb2.PushObjectRequest if number == PUSH else message_pb2.PullObjectRequest
    body = kind(node=link.site.node, run_id=link.run_id, object_id="ab" * 32).SerializeToString()
    plain = {"content-type": "application/protobuf"}
    for path, headers in (
        (parts.FLEET, plain),
        (parts.FLEET, other.headers()),
        (parts.RUNTIME, plain),
        (parts.RUNTIME, {**plain, "flwr-task-token": "0" * 64}),
    ):
        single = await visit(parts.route_path(path, number), body, headers).pay(served.app)
        seen = await visit(path, parts.pack([(number, body)] * 2), headers).pay(served.quick)
        assert seen == single
        assert seen.status == 401


async def test_one_bad_part_spoils_the_batch_and_leaves_nothing_half_done(
    served: Served, visit: type[Visit], contents: Contents
) -> None:
    link, message = served.link, served.link.made("spoiled")
    session = link.announced(message)
    good = pushes(link, session, contents(message))
    bad = pushes(link, session, {"ab" * 32: b"x"}, node_pb2.Node(node_id=5))
    seen = await visit(parts.RUNTIME, parts.pack(good + bad), link.token_headers).pay(served.quick)
    assert seen.status >= 400
    assert link.state.get_object(link.run_id, next(iter(contents(message)))) == b""
    seen = await visit(parts.RUNTIME, parts.pack(good), link.token_headers).pay(served.quick)
    assert parts.unpack(seen.body) == [(200, STORED)] * len(good)


async def test_a_refused_object_can_be_pushed_again_and_the_others_are_stored(
    served: Served, visit: type[Visit], contents: Contents
) -> None:
    link, message = served.link, served.link.made("one refused")
    session, objects = link.announced(message), contents(message)
    refused = list(objects)[1]
    wanted = pushes(link, session, {**objects, refused: b"wrong"})
    seen = await visit(parts.RUNTIME, parts.pack(wanted), link.token_headers).pay(served.quick)
    assert parts.unpack(seen.body) == [(200, STORED), (200, b""), (200, STORED)]
    again = pushes(link, session, {refused: objects[refused]})
    seen = await visit(parts.RUNTIME, parts.pack(again), link.token_headers).pay(served.quick)
    assert parts.unpack(seen.body) == [(200, STORED)]
    for object_id, content in objects.items():
        assert link.state.get_object(link.run_id, object_id) == content


@pytest.mark.parametrize("body", [b"\x00", parts.pack([(9, b"")]), parts.pack([(1, b"abc")])[:-1]])
async def test_what_is_no_batch_is_refused(served: Served, visit: type[Visit], body: bytes) -> None:
    seen = await visit(parts.RUNTIME, body, served.link.token_headers).pay(served.quick)
    assert (seen.status, seen.body) == (400, b"")


@pytest.mark.parametrize("number", [PUSH, PULL])
async def test_a_part_that_is_no_request_is_refused_as_a_single_one(
    served: Served, visit: type[Visit], number: int
) -> None:
    headers = served.link.token_headers
    path = parts.route_path(parts.RUNTIME, number)
    single = await visit(path, b"\xff\xff", headers).pay(served.app)
    body = parts.pack([(number, b"\xff\xff")])
    assert await visit(parts.RUNTIME, body, headers).pay(served.quick) == single
    assert single.status == 400
