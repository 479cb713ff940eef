from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.gate.conftest import Answer, Asked, Gate, Upstream, launch

MIB = 1 << 20
ONE = "/v1/federations/lab"


@dataclass
class House:
    """A gate with a SuperLink and a desk behind it."""

    gate: Gate
    superlink: Upstream
    desk: Upstream

    def request(self, method: str, path: str, role: str = "", **fields: str) -> bytes:
        headers = self.gate.user(role) if role else {}
        raw = self.gate.request(path, b"", headers | fields)
        return raw.replace(b"POST", method.encode(), 1)

    async def ask(self, method: str, path: str, role: str = "", **fields: str) -> Answer:
        return await self.gate.say("control", self.request(method, path, role, **fields))


@pytest.fixture
def with_desk(prepared: Path) -> Path:
    """Name a desk in the configuration."""
    config = json.loads(prepared.read_text()) | {"desk": str(prepared.parent / "desk.sock")}
    prepared.write_text(json.dumps(config))
    return prepared


@pytest.fixture
async def house(with_desk: Path) -> AsyncIterator[House]:
    folder = with_desk.parent
    superlink, desk = Upstream(), Upstream()
    await superlink.start(folder / "superlink.sock")
    await desk.start(folder / "desk.sock")
    gate = await asyncio.to_thread(launch, folder, with_desk)
    yield House(gate, superlink, desk)
    gate.hang_up()
    await asyncio.to_thread(gate.stop)
    for upstream in (superlink, desk):
        await upstream.stop()


async def test_pages_go_to_the_desk_and_flowers_calls_to_the_superlink(house: House) -> None:
    assert (await house.ask("GET", f"{ONE}/runs?x=1", "viewer")).status == 200
    assert (await house.ask("POST", "/v1/control/list-runs", "viewer")).status == 200
    assert [asked.path for asked in house.desk.seen] == [f"{ONE}/runs?x=1"]
    assert [asked.path for asked in house.superlink.seen] == ["/v1/control/list-runs"]


async def test_the_desk_is_told_who_speaks_by_the_gate_alone(house: House) -> None:
    lies = {"umbel-user": "root", "Umbel-Role": "admin", "flwr-anything": "x"}
    await house.ask("GET", ONE, "viewer", **lies)
    [asked] = house.desk.seen
    assert asked.headers == {
        "host": "umbel",
        "content-length": "0",
        "umbel-user": "the-viewer",
        "umbel-role": "viewer",
    }


async def test_roles_are_kept(house: House) -> None:
    for method, path, least in (
        ("GET", ONE, "viewer"),
        ("POST", f"{ONE}/runs", "operator"),
        ("POST", f"{ONE}/runs/7/stop", "operator"),
        ("PUT", f"{ONE}/sites", "admin"),
        ("PUT", f"{ONE}/status", "admin"),
    ):
        for role in ("viewer", "operator", "admin"):
            answer = await house.ask(method, path, role)
            reaches = ("viewer", "operator", "admin").index(role) >= (
                "viewer", "operator", "admin").index(least)  # fmt: skip
            assert answer.status == (200 if reaches else 403), (method, path, role)


async def test_a_stranger_cannot_tell_that_there_is_a_desk(house: House) -> None:
    for method, path in (("GET", ONE), ("PUT", f"{ONE}/sites"), ("GET", "/healthz"), ("GET", "/")):
        answer = await house.ask(method, path)
        assert answer.raw == house.gate.strangers_answer, path
    assert house.desk.seen == []


@pytest.mark.parametrize("target", ["/healthz", f"{ONE}/", f"{ONE}%2Fsites", "/v1/else"])
async def test_other_paths_do_not_reach_the_desk_even_for_an_admin(
    house: House, target: str
) -> None:
    assert (await house.ask("GET", target, "admin")).status == 401
    assert house.desk.seen == []


async def test_calls_are_written_down_by_name(house: House) -> None:
    await house.ask("PUT", f"{ONE}/sites", "admin")
    await house.ask("PUT", f"{ONE}/sites", "viewer")
    await house.ask("GET", f"{ONE}/runs/1/files/very/secret/name", "viewer")
    await asyncio.to_thread(house.gate.stop)
    lines = [(line["who"], line["what"], line["status"]) for line in house.gate.audit()[1:-1]]
    assert lines == [
        ("user:the-admin", "desk/sites", 200),
        ("user:the-viewer", "desk/sites", 403),
        ("user:the-viewer", "desk/file", 200),
    ]


async def test_a_stream_passes_as_it_comes(house: House) -> None:
    begun, on = asyncio.Event(), asyncio.Event()

    async def stream(asked: Asked) -> None:
        await asked.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\none\n\r\n")
        begun.set()
        await on.wait()
        await asked.say(b"4\r\ntwo\n\r\n0\r\n\r\n")

    house.desk.handler = stream
    client = await house.gate.connect("control")
    await client.send(house.request("GET", f"{ONE}/runs/1/events", "viewer"))
    await client.reader.readuntil(b"\r\n\r\n")
    chunks = client.chunks()
    assert await anext(chunks) == b"one\n"
    assert begun.is_set()
    on.set()
    assert [chunk async for chunk in chunks] == [b"two\n"]


async def test_large_files_pass_without_filling_the_gate(house: House) -> None:
    piece, count = bytes(MIB), 200

    async def send(asked: Asked) -> None:
        await asked.say(f"HTTP/1.1 200 OK\r\ncontent-length: {count * MIB}\r\n\r\n".encode())
        for _ in range(count):
            await asked.say(piece)

    house.desk.handler = send
    before = house.gate.memory()
    client = await house.gate.connect("control")
    await client.send(house.request("GET", f"{ONE}/runs/1/files/model.npz", "viewer"))
    await client.reader.readuntil(b"\r\n\r\n")
    for _ in range(count):
        await client.reader.readexactly(MIB)
    assert house.gate.memory() - before < 32 * MIB


async def test_a_desk_that_is_away_is_told_and_the_superlink_still_answers(house: House) -> None:
    await house.desk.stop()
    (house.gate.folder / "desk.sock").unlink(missing_ok=True)
    answer = await house.ask("GET", ONE, "viewer")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert (await house.ask("POST", "/v1/control/list-runs", "viewer")).status == 200
    await asyncio.to_thread(house.gate.stop)
    assert house.gate.audit()[1]["why"] == "the desk is not there"


async def test_without_a_desk_its_paths_are_unknown(gate: Gate, upstream: Upstream) -> None:
    raw = gate.request(ONE, b"", gate.user("admin")).replace(b"POST", b"GET", 1)
    assert (await gate.say("control", raw)).status == 401
    assert upstream.seen == []
