"""Much at once: what is stuck stays small, what is held is answered, what is cut is gone."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from umbel.gate.upstream import KEPT

if TYPE_CHECKING:
    from tests.integration.gate.conftest import Asked, Client, Gate, Own, Site

MIB = 1 << 20
LARGE = 20 * MIB
FLOWS = 10
PIECE = bytes(256 * 1024)
PULL = "/v1/fleet/pull-messages"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process as many descriptors as the system does."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def stuck(gate: Gate, moved: Callable[[], int]) -> None:
    """Wait until nothing moves any more, while others are served."""
    quiet, before = 0, -1
    while quiet < 20:
        await gate.ask("runtime", "/v1/runtime/no", gate.task)
        quiet = quiet + 1 if moved() == before else 0
        before = moved()


async def test_ten_uploads_that_are_stuck_are_not_held_whole(own: Own) -> None:
    gate, upstream = await own()
    go_on = asyncio.Event()
    sent = [0] * FLOWS

    async def read_late(asked: Asked) -> None:
        await go_on.wait()
        left = asked.length
        while left:
            left -= len(await asked.reader.read(MIB))
        await asked.say(OK)

    async def upload(client: Client, number: int) -> bytes:
        head = gate.request("/v1/runtime/push-object", b"", gate.task)
        await client.send(head.replace(b"content-length: 0", b"content-length: %d" % LARGE))
        while sent[number] < LARGE:
            await client.send(PIECE)
            sent[number] += len(PIECE)
        return (await client.answer()).body

    upstream.handler = read_late
    clients = [await gate.connect("runtime") for _ in range(FLOWS)]
    before = gate.memory()
    uploads = [asyncio.create_task(upload(c, n)) for n, c in enumerate(clients)]
    await stuck(gate, lambda: sum(sent))
    assert len(upstream.seen) == FLOWS
    assert max(sent) < LARGE
    assert gate.memory() - before < 20 * MIB
    go_on.set()
    for done in asyncio.as_completed(uploads):
        assert await done == b"ok"
        assert gate.memory() - before < 20 * MIB


async def test_ten_downloads_that_are_stuck_are_not_held_whole(own: Own) -> None:
    gate, upstream = await own()
    said = 0

    async def give(asked: Asked) -> None:
        nonlocal said
        await asked.body()
        await asked.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % LARGE)
        for _ in range(LARGE // len(PIECE)):
            await asked.say(PIECE)
            said += len(PIECE)

    upstream.handler = give
    clients = [await gate.connect("runtime") for _ in range(FLOWS)]
    before = gate.memory()
    for client in clients:
        await client.send(gate.request("/v1/runtime/pull-object", b"x", gate.task))
    await stuck(gate, lambda: said)
    assert len(upstream.seen) == FLOWS
    assert said < FLOWS * LARGE
    assert gate.memory() - before < 20 * MIB
    for done in asyncio.as_completed([client.answer() for client in clients]):
        assert len((await done).body) == LARGE
        assert gate.memory() - before < 20 * MIB


@pytest.mark.usefixtures("many_files")
async def test_a_thousand_held_polls_are_answered_and_cut_ones_leave_nothing(
    own: Own, north: Site
) -> None:
    gate, upstream = await own()
    arrived, gone = asyncio.Semaphore(0), asyncio.Semaphore(0)
    release = asyncio.Event()

    async def hold(asked: Asked) -> None:
        arrived.release()
        waits = [asyncio.create_task(w) for w in (release.wait(), asked.reader.read(1))]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not release.is_set():
            gone.release()
            raise ConnectionResetError
        waits[1].cancel()
        await asyncio.wait(waits)
        await asked.say(OK)

    async def poll() -> Client:
        client = await gate.connect("fleet")
        await client.send(gate.request(PULL, b"", north.headers()))
        await arrived.acquire()
        return client

    assert (await gate.ask("fleet", PULL, north.headers())).status == 200
    await gate.reload()
    files = gate.open_files()
    upstream.handler = hold
    polls: list[Client] = []
    for _ in range(20):
        polls += await asyncio.gather(*(poll() for _ in range(50)))
    assert gate.memory() < 100_000_000
    held = gate.open_files()
    cut, kept = polls[::4], [client for n, client in enumerate(polls) if n % 4]
    for client in cut:
        client.writer.transport.abort()
    for _ in cut:
        await gone.acquire()
    assert gate.open_files() == held - 2 * len(cut)
    release.set()
    assert {(await client.answer()).body for client in kept} == {b"ok"}
    gate.hang_up()
    for _ in range(100):
        await gate.reload()  # one turn of the gate's event loop
        if gate.open_files() <= files + KEPT:
            break
    assert gate.open_files() <= files + KEPT
