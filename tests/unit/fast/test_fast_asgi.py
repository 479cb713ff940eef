from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from umbel.flower.fast.asgi import Answer, Receive, Scope, Send, ask, read_body

Event = MutableMapping[str, Any]


def giving(*events: Event) -> Receive:
    left = list(events)

    async def receive() -> Event:
        return left.pop(0)

    return receive


def piece(body: bytes, *, more: bool) -> Event:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_read_whole() -> None:
    receive = giving(piece(b"a", more=True), piece(b"", more=True), piece(b"b", more=False))
    assert await read_body(receive) == b"ab"


async def test_no_body_is_an_empty_one() -> None:
    assert await read_body(giving({"type": "http.request"})) == b""


async def test_a_client_that_leaves_within_its_body_gives_none() -> None:
    assert await read_body(giving(piece(b"a", more=True), {"type": "http.disconnect"})) is None


async def test_an_app_is_asked_with_the_body_and_answers_in_pieces() -> None:
    async def app(_: Scope, receive: Receive, send: Send) -> None:
        event = await receive()
        headers = [(b"x-a", b"1")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": event["body"], "more_body": True})
        await send({"type": "http.response.body", "body": b"!"})

    answer = await ask(app, {"type": "http"}, b"hello")
    assert answer == Answer(201, ((b"x-a", b"1"),), b"hello!")


async def test_what_an_app_leaves_in_its_scope_is_not_seen_by_the_next_asking() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        seen.append(dict(scope["state"]))
        scope["state"]["mark"] = True
        scope["other"] = True

    scope: Scope = {"type": "http", "state": {"from": "lifespan"}}
    await ask(app, scope, b"")
    await ask(app, scope, b"")
    assert seen == [{"from": "lifespan"}] * 2
    assert scope == {"type": "http", "state": {"from": "lifespan"}}


async def test_an_app_that_says_nothing_is_an_error() -> None:
    async def silent(_: Scope, __: Receive, ___: Send) -> None:
        return

    assert (await ask(silent, {"type": "http"}, b"")).status == 500


async def test_an_answer_is_sent_with_its_true_length() -> None:
    sent: list[Event] = []

    async def send(event: Event) -> None:
        sent.append(event)

    await Answer(200, ((b"content-length", b"99"), (b"x-a", b"1")), b"abc").send(send)
    assert sent[0]["status"] == 200
    assert sent[0]["headers"] == [(b"x-a", b"1"), (b"content-length", b"3")]
    assert sent[1]["body"] == b"abc"
