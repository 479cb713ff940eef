from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.gate.conftest import Asked, Client, Gate, Own, Site, Upstream

MIB = 1 << 20
PULL = "/v1/fleet/pull-messages"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_a_site_reaches_the_superlink(gate: Gate, upstream: Upstream, north: Site) -> None:
    headers = north.headers() | {"content-type": "application/protobuf", "x-forwarded-for": "me"}
    answer = await gate.ask("fleet", PULL, headers, b"hello")
    assert (answer.status, answer.body) == (200, b"hello")
    assert set(answer.headers) == {"content-length"}
    [asked] = upstream.seen
    assert asked.path == PULL
    assert asked.headers["flwr-timestamp"] == headers["flwr-timestamp"]
    assert asked.headers["content-type"] == "application/protobuf"
    assert asked.headers["host"] == "umbel"
    assert "x-forwarded-for" not in asked.headers


async def test_a_users_token_stays_at_the_gate(gate: Gate, upstream: Upstream) -> None:
    answer = await gate.ask("control", "/v1/control/list-runs", gate.user("viewer"), b"x")
    assert answer.status == 200
    assert "authorization" not in upstream.seen[0].headers


async def test_a_task_reaches_the_superlink(gate: Gate, upstream: Upstream) -> None:
    answer = await gate.ask("runtime", "/v1/runtime/get-nodes", gate.task, b"x")
    assert answer.status == 200
    assert upstream.seen[0].headers["flwr-task-token"] == gate.task["flwr-task-token"]


async def test_connections_are_kept_on_both_sides(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    client = await gate.connect("fleet")
    for number in range(20):
        await client.send(gate.request(PULL, str(number).encode(), north.headers()))
        assert (await client.answer()).body == str(number).encode()
    assert upstream.connections == 1


async def test_a_client_that_asks_to_close_is_left(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    client = await gate.connect("fleet")
    await client.send(gate.request(PULL, b"x", north.headers() | {"connection": "close"}))
    assert (await client.answer()).headers["connection"] == "close"
    assert await client.rest() == b""
    assert len(upstream.seen) == 1


async def test_a_body_may_come_byte_by_byte(gate: Gate, upstream: Upstream, north: Site) -> None:
    client = await gate.connect("fleet")
    for byte in gate.request(PULL, b"hello", north.headers()):
        await client.send(bytes([byte]))
    assert (await client.answer()).body == b"hello"
    assert len(upstream.seen) == 1


async def test_pipelined_requests_are_answered_one_by_one(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    arrived, release = asyncio.Event(), asyncio.Event()

    async def slow(asked: Asked) -> None:
        body = await asked.body()
        arrived.set()
        await release.wait()
        await asked.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    upstream.handler = slow
    client = await gate.connect("fleet")
    bodies = [b"one", b"", b"three" * 1000, b"four"]
    await client.send(b"".join(gate.request(PULL, b, north.headers()) for b in bodies))
    answers = asyncio.create_task(_answers(client, len(bodies)))
    await arrived.wait()
    other = await gate.connect("fleet")  # a whole handshake later, only the first is on its way
    assert len(upstream.seen) == 1
    release.set()
    assert await answers == bodies
    other.writer.transport.abort()


async def _answers(client: Client, count: int) -> list[bytes]:
    return [(await client.answer()).body for _ in range(count)]


async def test_a_stream_passes_chunk_by_chunk(gate: Gate, upstream: Upstream) -> None:
    go_on = asyncio.Event()

    async def stream(asked: Asked) -> None:
        await asked.body()
        await asked.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(3):
            await go_on.wait()
            go_on.clear()
            await asked.say(b"5\r\nlines\r\n")
        await asked.say(b"0\r\n\r\n")

    upstream.handler = stream
    client = await gate.connect("control")
    await client.send(gate.request("/v1/control/stream-logs", b"x", gate.user("viewer")))
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    chunks = client.chunks()
    for _ in range(3):
        go_on.set()
        assert await anext(chunks) == b"lines"
    assert [chunk async for chunk in chunks] == []
    upstream.handler = _ok
    await client.send(gate.request("/v1/control/list-runs", b"x", gate.user("viewer")))
    assert (await client.answer()).body == b"ok"


async def _ok(asked: Asked) -> None:
    await asked.body()
    await asked.say(OK)


async def test_an_answer_that_ends_with_the_connection_is_whole(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    async def until_close(asked: Asked) -> None:
        await asked.body()
        await asked.say(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        raise ConnectionResetError

    upstream.handler = until_close
    assert (await gate.ask("fleet", PULL, north.headers())).body == b"all of it"


async def test_a_client_that_leaves_takes_its_request_along(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    arrived = asyncio.Event()

    async def stall(asked: Asked) -> None:
        arrived.set()
        await asked.reader.readexactly(asked.length + 1)

    upstream.handler = stall
    client = await gate.connect("fleet")
    await client.send(gate.request(PULL, b"x", north.headers()))
    await arrived.wait()
    client.writer.transport.abort()
    await asyncio.wait_for(upstream.gone.wait(), 5)


async def test_without_a_superlink_clients_are_told_to_come_back(gate: Gate, north: Site) -> None:
    (gate.folder / "superlink.sock").unlink(missing_ok=True)
    client = await gate.connect("fleet")
    for _ in range(2):
        await client.send(gate.request(PULL, b"x" * 100, north.headers()))
        answer = await client.answer()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")


async def test_a_superlink_that_dies_is_a_bad_gateway_and_is_asked_once(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    async def die(asked: Asked) -> None:
        await asked.body()
        raise ConnectionResetError

    upstream.handler = die
    assert (await gate.ask("fleet", PULL, north.headers(), b"claim")).status == 502
    assert len(upstream.seen) == 1


@pytest.mark.parametrize(
    "junk", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n"]
)
async def test_an_answer_that_is_none_is_a_bad_gateway(
    junk: bytes, gate: Gate, upstream: Upstream, north: Site
) -> None:
    async def mumble(asked: Asked) -> None:
        await asked.body()
        await asked.say(junk)

    upstream.handler = mumble
    assert (await gate.ask("fleet", PULL, north.headers())).status == 502


@pytest.mark.parametrize("framing", [b"content-length: 100", b"transfer-encoding: chunked"])
async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(
    framing: bytes, gate: Gate, upstream: Upstream, north: Site
) -> None:
    async def break_off(asked: Asked) -> None:
        await asked.body()
        await asked.say(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n5\r\nhalf.\r\n")
        raise ConnectionResetError

    upstream.handler = break_off
    client = await gate.connect("fleet")
    await client.send(gate.request(PULL, b"x", north.headers()))
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await client.answer()


async def test_a_link_that_was_closed_meanwhile_is_not_used(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    client = await gate.connect("fleet")
    for number in range(1, 6):
        await client.send(gate.request(PULL, b"x", north.headers()))
        assert (await client.answer()).status == 200
        assert upstream.connections == number
        await upstream.hang_up()


async def test_what_a_superlink_says_to_who_it_does_not_know_stays_inside(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.body()
        await asked.say(
            b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\n"
            b'content-length: 21\r\n\r\n{"message": "inside"}'
        )

    upstream.handler = refuse
    client = await gate.connect("fleet")
    for _ in range(2):
        await client.send(gate.request(PULL, b"x", north.headers()))
        answer = await client.answer()
        assert answer.status == 401
        assert answer.raw == gate.strangers_answer.replace(b"connection: close\r\n", b"")


async def test_a_client_that_waits_for_a_sign_gets_one(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    client = await gate.connect("fleet")
    head = gate.request(PULL, b"hello", north.headers() | {"expect": "100-continue"})[:-5]
    await client.send(head)
    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await client.send(b"hello")
    assert (await client.answer()).body == b"hello"
    assert "expect" not in upstream.seen[0].headers


async def test_an_early_answer_reaches_a_client_that_is_still_sending(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    async def early(asked: Asked) -> None:
        await asked.say(b"HTTP/1.1 415 No\r\ncontent-length: 2\r\n\r\nno")
        await upstream.gone.wait()

    upstream.handler = early
    client = await gate.connect("fleet")
    body = bytes(8 * MIB)
    sending = asyncio.create_task(client.send(gate.request(PULL, body, north.headers())))
    answer = await client.answer()
    assert (answer.status, answer.body) == (415, b"no")
    assert answer.headers["connection"] == "close"
    client.writer.transport.abort()
    await asyncio.gather(sending, return_exceptions=True)


async def test_a_socket_may_lie_deep(own: Own, north: Site, tmp_path: Path) -> None:
    deep = tmp_path / ("folder" * 20)
    deep.mkdir()
    gate, _ = await own(deep)
    assert (await gate.ask("fleet", PULL, north.headers(), b"x")).status == 200


async def test_a_model_passes_in_pieces_and_is_never_held_whole(own: Own) -> None:
    gate, upstream = await own(runtimeBodyBytes=200 * MIB)
    piece = bytes(range(256)) * 1024
    got = 0

    async def store(asked: Asked) -> None:
        nonlocal got
        while got < asked.length:
            got += len(await asked.reader.read(MIB))
        await asked.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (100 * MIB))
        for _ in range(400):
            await asked.say(piece)

    upstream.handler = store
    assert (await gate.ask("runtime", "/v1/runtime/get-nodes")).status == 401  # warm
    before = gate.memory()
    client = await gate.connect("runtime")
    head = gate.request("/v1/runtime/push-object", b"", gate.task)
    await client.send(head.replace(b"content-length: 0", b"content-length: %d" % (100 * MIB)))
    most = before
    for _ in range(400):
        await client.send(piece)
        most = max(most, gate.memory())
    answer_head = await client.reader.readuntil(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % (100 * MIB) in answer_head
    for _ in range(400):
        assert await client.reader.readexactly(len(piece)) == piece
        most = max(most, gate.memory())
    assert got == 100 * MIB
    assert most - before < 16 * MIB


async def test_a_slow_superlink_slows_the_client_and_not_the_gate(own: Own) -> None:
    gate, upstream = await own()
    upstream_waits = asyncio.Event()

    async def stall(asked: Asked) -> None:
        await upstream_waits.wait()
        left = asked.length
        while left:
            left -= len(await asked.reader.read(MIB))
        await asked.say(OK)

    upstream.handler = stall
    client = await gate.connect("runtime")
    before = gate.memory()
    request = gate.request("/v1/runtime/push-object", bytes(60 * MIB), gate.task)

    async def send() -> None:
        for at in range(0, len(request), MIB):
            await client.send(request[at : at + MIB])

    sending = asyncio.create_task(send())
    # Another client is served meanwhile, and nothing piles up.
    upstream_free = await gate.connect("runtime")
    for _ in range(20):
        await upstream_free.send(gate.request("/v1/runtime/no", b"", gate.task))
        await upstream_free.rest()
        upstream_free = await gate.connect("runtime")
    assert not sending.done()
    assert gate.memory() - before < 16 * MIB
    upstream_waits.set()
    await sending
    assert (await client.answer()).body == b"ok"


async def test_requests_in_advance_wait_at_the_client(own: Own) -> None:
    gate, upstream = await own()
    arrived = asyncio.Event()

    async def stall(asked: Asked) -> None:
        arrived.set()
        await asked.reader.readexactly(asked.length + 1)

    upstream.handler = stall
    client = await gate.connect("runtime")
    before = gate.memory()
    request = gate.request("/v1/runtime/get-nodes", bytes(1000), gate.task)

    async def send() -> None:
        while True:
            await client.send(request * 500)

    sending = asyncio.create_task(send())
    await arrived.wait()
    for _ in range(50):  # as much as the system holds on its own, and then no more
        await gate.ask("runtime", "/v1/runtime/no", gate.task)
    assert gate.memory() - before < 16 * MIB
    assert len(upstream.seen) == 1
    sending.cancel()
