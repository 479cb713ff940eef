"""Clients cut anywhere, on a real SuperLink with its database: nothing lost, nothing done twice."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flwr.proto import fleet_pb2, message_pb2, node_pb2, runtime_pb2
from tests.integration.exactness.conftest import LONG
from tests.integration.exactness.wire import Door, Line, Parcel, parcel, superlink
from tests.integration.fast.conftest import Link, Site
from tests.integration.gate.conftest import launch, write_certificate, write_config, write_rosters

from umbel.flower.fast import parts
from umbel.identity.node_keys import fingerprint

pytestmark = pytest.mark.long

NODES = 10
ROUNDS = 40 if LONG else 8
MOST_CUTS = 5  # of one message: a message is given again five times
LATEST_CUT_S = 0.012
SERVER = node_pb2.Node(node_id=1)


@dataclass
class Tally:
    """What arrived, and what was cut."""

    executed: Counter[str] = field(default_factory=Counter)
    replies: Counter[str] = field(default_factory=Counter)
    node_cuts: int = 0
    server_cuts: int = 0


@dataclass
class Party:
    """One side of the exchange: speaks its API with its credentials."""

    line: Line
    api: str
    link: Link
    site: Site | None = None
    chance: random.Random = field(default_factory=random.Random)
    cuts_uploads: bool = False

    @property
    def node(self) -> Any:
        """Its name in requests."""
        return self.site.node if self.site else SERVER

    async def ask(self, route: str, request: Any, answer: Any) -> Any:
        """Ask, and read the answer."""
        body = request.SerializeToString()
        said = await self.line.ask(f"/v1/{self.api}/{route}", body, self._headers())
        return answer.FromString(said)

    async def cut(self, request: Any) -> None:
        """Pull messages, and leave at some moment."""
        after_s = self.chance.uniform(0, LATEST_CUT_S)
        path, body = f"/v1/{self.api}/pull-messages", request.SerializeToString()
        await self.line.cut(path, body, self._headers(), after_s)

    async def push_objects(self, session: str, wanted: Any, sent: list[Parcel]) -> None:
        """Push what is wanted, in one batch."""
        content = {name: body for each in sent for name, body in each.objects.items()}
        requests = [
            message_pb2.PushObjectRequest(
                node=self.node, run_id=self.link.run_id, object_id=name,
                object_content=content[name], session_id=session,
            )
            for name in wanted
        ]  # fmt: skip
        if self.cuts_uploads:
            for _ in range(self.chance.randint(0, 2)):
                path, body, headers = self._batched("push-object", requests)
                await self.line.cut(path, body, headers, self.chance.uniform(0, LATEST_CUT_S))
        for status, body in await self._batch("push-object", requests):
            assert status == 200
            assert message_pb2.PushObjectResponse.FromString(body).stored

    async def receive(self, message_id: str, tree: Any) -> dict[str, bytes]:
        """Pull the objects of a message, then confirm it."""
        got: dict[str, bytes] = {}
        wanted = list(names_in(tree))
        while missing := [name for name in wanted if name not in got]:
            requests = [
                message_pb2.PullObjectRequest(
                    node=self.node, run_id=self.link.run_id, object_id=name
                )
                for name in missing
            ]
            answers = await self._batch("pull-object", requests)
            for name, (status, body) in zip(missing, answers, strict=True):
                part = message_pb2.PullObjectResponse.FromString(body)
                if status == 200 and part.object_available:
                    got[name] = part.object_content
        confirm = message_pb2.ConfirmMessageReceivedRequest(
            node=self.node, run_id=self.link.run_id, message_object_id=message_id
        )
        await self.ask(
            "confirm-message-received", confirm, message_pb2.ConfirmMessageReceivedResponse
        )
        return got

    async def _batch(self, route: str, requests: list[Any]) -> list[Any]:
        return parts.unpack(await self.line.ask(*self._batched(route, requests)))

    def _batched(self, route: str, requests: list[Any]) -> tuple[str, bytes, dict[str, str]]:
        number = parts.ROUTES.index(route)
        body = parts.pack((number, request.SerializeToString()) for request in requests)
        headers = {**self._headers(), "content-type": parts.MEDIA}
        return f"/v1/{self.api}/umbel-batch", body, headers

    def _headers(self) -> dict[str, str]:
        if self.site is not None:
            return self.site.headers()
        return {"content-type": "application/protobuf", "flwr-task-token": self.link.token}


def names_in(tree: Any) -> Iterator[str]:
    """Give the ids of a tree, each once."""
    seen: set[str] = set()
    todo = [tree]
    while todo:
        each = todo.pop()
        todo.extend(each.children)
        if each.object_id not in seen:
            seen.add(each.object_id)
            yield each.object_id


async def serve_node(party: Party, tally: Tally) -> None:
    """Be a SuperNode for all rounds: pull, often in vain, then do the work and reply."""
    request = fleet_pb2.PullMessagesRequest(node=party.node)
    for _ in range(ROUNDS):
        for _ in range(party.chance.randint(0, MOST_CUTS)):
            await party.cut(request)
            tally.node_cuts += 1
        pulled = fleet_pb2.PullMessagesResponse()
        while not pulled.messages_list:
            pulled = await party.ask("pull-messages", request, fleet_pb2.PullMessagesResponse)
        (message,) = pulled.messages_list
        message_id = message.metadata.message_id
        objects = await party.receive(message_id, pulled.message_object_trees[0])
        assert message_id in objects
        tally.executed[message_id] += 1
        reply = parcel(party.link.run_id, party.node.node_id, f"to {message_id}", message_id)
        pushed = await party.ask(
            "push-messages",
            fleet_pb2.PushMessagesRequest(
                node=party.node, messages_list=[reply.proto], message_object_trees=[reply.tree]
            ),
            fleet_pb2.PushMessagesResponse,
        )
        await party.push_objects(pushed.session_id, pushed.objects_to_push, [reply])


async def serve_app(party: Party, nodes: list[int], tally: Tally) -> set[str]:
    """Be a ServerApp for all rounds: send to all, pull replies, often in vain, until all are there."""
    asked: set[str] = set()
    for number in range(ROUNDS):
        alive = runtime_pb2.SendTaskHeartbeatRequest()
        await party.ask("send-task-heartbeat", alive, runtime_pb2.SendTaskHeartbeatResponse)
        sent = [parcel(party.link.run_id, node, f"round {number}") for node in nodes]
        pushed = await party.ask(
            "push-messages",
            runtime_pb2.PushAppMessagesRequest(
                messages_list=[p.proto for p in sent], message_object_trees=[p.tree for p in sent]
            ),
            runtime_pb2.PushAppMessagesResponse,
        )
        await party.push_objects(pushed.session_id, pushed.objects_to_push, sent)
        open_ids = {p.message_id for p in sent}
        asked |= open_ids
        while open_ids:
            request = runtime_pb2.PullAppMessagesRequest(message_ids=sorted(open_ids))
            for _ in range(party.chance.randint(0, 8 * MOST_CUTS)):
                await party.cut(request)
                tally.server_cuts += 1
            pulled = await party.ask("pull-messages", request, runtime_pb2.PullAppMessagesResponse)
            trees = pulled.message_object_trees
            for message, tree in zip(pulled.messages_list, trees, strict=True):
                assert not message.HasField("error"), message.error
                tally.replies[message.metadata.reply_to_message_id] += 1
                await party.receive(message.metadata.message_id, tree)
                open_ids.discard(message.metadata.reply_to_message_id)
    return asked


@dataclass(frozen=True)
class Doors:
    """Where nodes and ServerApp connect."""

    fleet: Door
    runtime: Door


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[Link, list[Site]]:
    """A database with a run and nodes, and what a SuperLink and a gate need beside it."""
    link = Link(tmp_path / "state.db")
    sites = [link.site, *(link.joined() for _ in range(NODES - 1))]
    for site in sites:
        link.state.acknowledge_node_heartbeat(site.node_id, 600)
    assert link.token_headers  # its heartbeat counts from now
    link.close()
    write_certificate(tmp_path)
    write_rosters(tmp_path)
    roster = {fingerprint(s.public): {"site": f"s{n}"} for n, s in enumerate(sites)}
    (tmp_path / "sites.json").write_text(json.dumps(roster))
    return link, sites


@pytest.fixture(params=["alone", "behind the gate"])
def doors(
    request: pytest.FixtureRequest, prepared: tuple[Link, list[Site]], tmp_path: Path
) -> Iterator[Doors]:
    """A SuperLink of ours, with or without a gate before it."""
    assert prepared
    with superlink(tmp_path) as socket:
        if request.param == "alone":
            yield Doors(Door(socket), Door(socket))
            return
        gate = launch(tmp_path, write_config(tmp_path))
        ca = tmp_path / "server.crt"
        yield Doors(*(Door(port=gate.ports[api], ca=ca) for api in ("fleet", "runtime")))
        assert gate.stop() == 0


async def exchange(
    prepared: tuple[Link, list[Site]], doors: Doors, *, cuts_uploads: bool = False
) -> Tally:
    """Let a ServerApp and all nodes do all rounds, and be cut; everything must arrive once."""
    link, sites = prepared
    tally = Tally()
    parties = [
        Party(Line(doors.fleet), "fleet", link, site, random.Random(n), cuts_uploads)  # noqa: S311
        for n, site in enumerate(sites)
    ]
    chance = random.Random(NODES)  # noqa: S311
    server = Party(Line(doors.runtime), "runtime", link, None, chance, cuts_uploads)
    try:
        async with asyncio.TaskGroup() as group:
            for party in parties:
                group.create_task(serve_node(party, tally))
            app = group.create_task(serve_app(server, [s.node_id for s in sites], tally))
    finally:
        for party in [*parties, server]:
            party.line.hang_up()
    everything = dict.fromkeys(app.result(), 1)
    assert len(everything) == ROUNDS * NODES
    assert (tally.executed, tally.replies) == (everything, everything)
    return tally


@pytest.mark.timeout(300 if LONG else 120)
async def test_no_cut_loses_a_message_or_lets_one_be_done_twice(
    prepared: tuple[Link, list[Site]], doors: Doors
) -> None:
    tally = await exchange(prepared, doors)
    assert tally.node_cuts > 2 * ROUNDS * NODES
    assert tally.server_cuts > ROUNDS


@pytest.mark.timeout(300 if LONG else 120)
@pytest.mark.parametrize("doors", ["alone"], indirect=True)
async def test_an_upload_that_is_cut_is_repeated_to_its_end(
    prepared: tuple[Link, list[Site]], doors: Doors
) -> None:
    await exchange(prepared, doors, cuts_uploads=True)
