"""The road between a spoke and the hub: bytes go through, stop when it is cut, come later when slow."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from testbed.ports import free_ports
from testbed.processes import Processes, Record, runs
from testbed.relay import Link, Road


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data.upper())
        await writer.drain()
    writer.close()
    await writer.wait_closed()


@pytest.fixture
async def road() -> AsyncIterator[tuple[Road, Link]]:
    target, port = free_ports(2)
    link = Link(port)
    far = await asyncio.start_server(echo, "127.0.0.1", target)
    way = Road(link, target)
    near = await way.serve(link)
    yield way, link
    for server in (near, far):
        server.close()
    await way.close()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait_for(asyncio.gather(*rest, return_exceptions=True), 10)


async def ask(link: Link, word: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    try:
        writer.write(word)
        return await reader.readexactly(len(word))
    finally:
        writer.close()
        await writer.wait_closed()


async def test_bytes_go_through(road: tuple[Road, Link]) -> None:
    assert await ask(road[1], b"hello") == b"HELLO"


async def test_a_cut_road_is_silent_and_a_healed_one_flows_on(road: tuple[Road, Link]) -> None:
    way, link = road
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"one")
    assert await reader.readexactly(3) == b"ONE"
    way.obey(Link(link.port, cut=True))
    writer.write(b"two")
    fresh = asyncio.create_task(ask(link, b"new"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(fresh), 0.2)
    way.obey(link)
    assert await reader.readexactly(3) == b"TWO"
    assert await fresh == b"NEW"
    writer.close()
    await writer.wait_closed()


async def test_a_slow_road_takes_its_time_each_way(road: tuple[Road, Link]) -> None:
    way, link = road
    way.obey(Link(link.port, delay_ms=100))
    clock = asyncio.get_running_loop().time
    begun = clock()
    assert await ask(link, b"late") == b"LATE"
    assert clock() - begun >= 0.2  # never sooner: a promise of the road, not of the machine


def test_a_process_is_known_by_more_than_its_number(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    record = processes.start("sleeper", ["sleep", "60"])
    assert runs(record)
    impostor = Record("sleeper", os.getpid(), 1, (), {})
    processes.stop([impostor])  # would end this very test
    assert [one.name for one in processes.all()] == []
    os.killpg(record.pid, signal.SIGKILL)
    processes.stop([record])
    assert not runs(record)


def test_a_process_that_will_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.processes.PATIENCE", 0.3)
    processes = Processes(tmp_path)
    record = processes.start(
        "deaf", ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"]
    )
    processes.stop(processes.all())
    assert not runs(record)
    assert processes.all() == []


def test_a_killed_process_starts_again_as_it_was(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    first = processes.start("sleeper", ["sleep", "60"], {"COLOUR": "blue"})
    processes.kill("sleeper")
    assert not runs(first)
    second = processes.again("sleeper")
    assert (second.argv, second.env) == (first.argv, first.env)
    assert second.env["COLOUR"] == "blue"
    assert runs(second)
    processes.stop([second])
