"""Clients that leave anywhere: what they did not confirm comes again, so nothing is lost."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
from flwr.proto import fleet_pb2, node_pb2

from umbel.flower.fast.asgi import Answer, Receive, Scope, Send, read_body
from umbel.flower.fast.bells import Bells
from umbel.flower.fast.hold import Hold, node_bell

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Visit

CUTS = 500
PATH = "/v1/fleet/pull-messages"
REQUEST = fleet_pb2.PullMessagesRequest(node=node_pb2.Node(node_id=7)).SerializeToString()


async def turns(count: int) -> None:
    """Let the others go on, so many times."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned


class State:
    """One message at a time, claimed when it is pulled, given back when it is not confirmed."""

    def __init__(self, chance: random.Random, *, gives_back: bool = True) -> None:
        self._chance = chance
        self._gives_back = gives_back
        self._waiting: list[bytes] = []
        self._claimed: list[bytes] = []

    def store(self, message: bytes) -> None:
        self._waiting.append(message)

    def confirm(self, message: bytes) -> None:
        self._claimed.remove(message)

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await turns(self._chance.randrange(3))
        if self._gives_back:
            self._waiting, self._claimed = self._claimed + self._waiting, []
        body = b""
        if self._waiting:
            body = self._waiting.pop(0)
            self._claimed.append(body)
        await turns(self._chance.randrange(3))
        await Answer(200, (), body).send(send)


class Run:
    """A node that pulls and is cut, again and again."""

    def __init__(self, visit: type[Visit], chance: random.Random, state: State) -> None:
        self.bells = Bells()
        self._visit = visit
        self._chance = chance
        self._state = state
        self._hold = Hold(state, self.bells, hold_s=5.0)

    async def cut_pull(self, message: bytes) -> bytes:
        """Pull, while a message is stored and the client leaves, each at some time."""
        request = self._visit(PATH, REQUEST)
        pull = asyncio.create_task(request.pay(self._hold))
        await turns(self._chance.randrange(8))
        self._state.store(message)
        self.bells.ring(node_bell(7))
        await turns(self._chance.randrange(12))
        request.left.set()
        seen = await pull
        return seen.body if seen.whole else b""

    async def whole_pull(self) -> bytes:
        return (await self._visit(PATH, REQUEST).pay(self._hold)).body


async def settled() -> None:
    """Wait for what the cut requests left behind."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


async def received(visit: type[Visit], seed: int, *, gives_back: bool) -> tuple[list[bytes], int]:
    """Give what arrived of `CUTS` messages, and how many pulls were cut before their answer."""
    chance = random.Random(seed)  # noqa: S311
    state = State(chance, gives_back=gives_back)
    run = Run(visit, chance, state)
    got: list[bytes] = []
    cut = 0
    for number in range(CUTS):
        message = await run.cut_pull(b"%d" % number)
        cut += not message
        await settled()
        if not message and gives_back:
            message = await run.whole_pull()
        if message:
            state.confirm(message)
            got.append(message)
    assert run.bells._ears == {}
    return got, cut


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_cut_loses_a_message(visit: type[Visit], seed: int) -> None:
    got, cut = await received(visit, seed, gives_back=True)
    assert got == [b"%d" % number for number in range(CUTS)]
    assert CUTS / 10 < cut < CUTS * 9 / 10  # both ways were taken


async def test_without_giving_back_messages_would_be_lost(visit: type[Visit]) -> None:
    """The cuts above do hit claimed messages: noticing that a client left is not enough."""
    got, _ = await received(visit, 1, gives_back=False)
    assert len(got) < CUTS
