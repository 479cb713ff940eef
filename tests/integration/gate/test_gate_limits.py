from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.integration.gate.conftest import Asked, Gate, Own, Site, Upstream

PULL = "/v1/fleet/pull-messages"


async def test_a_head_that_is_too_long_is_refused(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    long = north.headers() | {"x-long": "x" * 16 * 1024}
    assert (await gate.ask("fleet", PULL, long)).raw == gate.strangers_answer
    endless = await gate.connect("fleet")
    await endless.send(b"POST / HTTP/1.1\r\nx: " + b"x" * 17 * 1024)
    assert await endless.rest() == gate.strangers_answer
    many = north.headers() | {f"x-{n}": "x" for n in range(70)}
    assert (await gate.ask("fleet", PULL, many)).raw == gate.strangers_answer
    assert upstream.seen == []


async def test_a_body_that_is_too_long_is_refused_before_it_comes(own: Own, north: Site) -> None:
    gate, upstream = await own(fleetBodyBytes=1000)
    assert (await gate.ask("fleet", PULL, north.headers(), bytes(1000))).status == 200
    answer = await gate.ask("fleet", PULL, north.headers(), bytes(1001))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert len(upstream.seen) == 1
    assert (
        await gate.ask("control", "/v1/control/list-runs", gate.user("viewer"), bytes(2000))
    ).status == 200
    assert (await gate.ask("fleet", PULL, {}, bytes(1001))).raw == gate.strangers_answer


async def test_who_is_slow_is_sent_away(own: Own, north: Site) -> None:
    gate, upstream = await own(headerSeconds=0.4, bodyIdleSeconds=0.4, idleSeconds=0.4)
    silent = await gate.connect("fleet")
    slow_head = await gate.connect("fleet")
    await slow_head.send(b"POST /v1/fleet/get-run HTTP/1.1\r\nhost:")
    slow_body = await gate.connect("fleet")
    await slow_body.send(gate.request(PULL, b"hello", north.headers())[:-1])
    idle = await gate.connect("fleet")
    await idle.send(gate.request(PULL, b"hello", north.headers()))
    assert (await idle.answer()).status == 200
    said = await asyncio.gather(*(c.rest() for c in (silent, slow_head, slow_body, idle)))
    assert said == [b"", b"", b"", b""]
    assert upstream.gone.is_set()


async def test_a_slow_answer_is_no_ones_fault(own: Own, north: Site) -> None:
    gate, upstream = await own(headerSeconds=0.3, bodyIdleSeconds=0.3, idleSeconds=0.3)
    others = asyncio.Event()

    async def slow(asked: Asked) -> None:
        await asked.body()
        await others.wait()
        await asked.say(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    upstream.handler = slow
    waiting = await gate.connect("fleet")
    await waiting.send(gate.request(PULL, b"x", north.headers()))
    for _ in range(2):  # meanwhile, two silent clients use up their time one after the other
        assert await (await gate.connect("fleet")).rest() == b""
    others.set()
    assert (await waiting.answer()).status == 200


async def test_who_does_not_read_is_sent_away(own: Own) -> None:
    gate, upstream = await own(sendIdleSeconds=0.3)

    async def pour(asked: Asked) -> None:
        await asked.body()
        await asked.say(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n")
        while True:
            await asked.say(bytes(1 << 16))

    upstream.handler = pour
    client = await gate.connect("runtime")
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(gate.request("/v1/runtime/pull-object", b"", gate.task))
    await asyncio.wait_for(upstream.gone.wait(), 5)


async def test_who_does_not_shake_hands_is_sent_away(own: Own) -> None:
    gate, _ = await own(handshakeSeconds=0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.ports["fleet"])
    assert await reader.read() == b""
    writer.close()


async def test_one_peer_gets_so_many_connections_and_no_more(own: Own) -> None:
    gate, _ = await own(connectionsPerPeer=3, handshakeSeconds=60)
    raw = [await asyncio.open_connection("127.0.0.1", gate.ports["fleet"]) for _ in range(2)]
    third = await gate.connect("fleet")
    try:
        await gate.connect("control")
    except (ConnectionError, ssl.SSLError):
        refused = True
    assert refused
    # Who leaves makes room, handshake done or not.
    third.writer.transport.abort()
    for _, writer in raw:
        writer.transport.abort()
    assert await _gets_in(gate)


async def test_all_peers_together_get_so_many(own: Own) -> None:
    gate, _ = await own(connections=2)
    for _ in range(2):
        await gate.connect("fleet")
    try:
        await gate.connect("control")
    except (ConnectionError, ssl.SSLError):
        gate.hang_up()
    assert await _gets_in(gate)


async def _gets_in(gate: Gate) -> bool:
    for _ in range(100):
        try:
            await gate.connect("fleet")
        except (ConnectionError, ssl.SSLError):
            continue
        return True
    return False
