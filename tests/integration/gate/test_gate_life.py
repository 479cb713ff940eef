from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from umbel.gate.config import Tls
from umbel.gate.server import tls_context

if TYPE_CHECKING:
    from tests.integration.gate.conftest import Asked, Own, Site

PULL = "/v1/fleet/pull-messages"


async def test_a_gate_is_small(own: Own, north: Site) -> None:
    gate, _ = await own()
    assert (await gate.ask("fleet", PULL, north.headers())).status == 200
    assert gate.memory() < 40_000_000


async def test_the_end_waits_for_what_is_in_flight(own: Own, north: Site) -> None:
    gate, upstream = await own()
    arrived, release = asyncio.Event(), asyncio.Event()

    async def slow(asked: Asked) -> None:
        await asked.body()
        arrived.set()
        await release.wait()
        await asked.say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")

    upstream.handler = slow
    busy, idle = await gate.connect("fleet"), await gate.connect("fleet")
    await busy.send(gate.request(PULL, b"x", north.headers()))
    await arrived.wait()
    gate.process.send_signal(signal.SIGTERM)
    assert await idle.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await gate.connect("fleet")
    release.set()
    answer = await busy.answer()
    assert (answer.body, answer.headers["connection"]) == (b"done", "close")
    assert await asyncio.to_thread(gate.process.wait, 2) == 0
    assert gate.audit()[-1]["what"] == "gate stopped"


async def test_the_end_does_not_wait_for_ever(own: Own, north: Site) -> None:
    gate, upstream = await own()
    arrived = asyncio.Event()

    async def stall(asked: Asked) -> None:
        arrived.set()
        await asked.reader.readexactly(asked.length + 1)

    upstream.handler = stall
    client = await gate.connect("fleet")
    await client.send(gate.request(PULL, b"x", north.headers()))
    await arrived.wait()
    gate.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(gate.process.wait, 3) == 0


async def test_a_new_certificate_is_shown_without_dropping_anybody(
    own: Own, north: Site, renew: Callable[[Path, str], None]
) -> None:
    gate, _ = await own()
    before = await gate.connect("fleet")
    assert before.certificate_name() == "server"
    renew(gate.folder, "renewed")
    await gate.reload()
    await before.send(gate.request(PULL, b"x", north.headers()))
    assert (await before.answer()).status == 200
    assert (await gate.connect("fleet")).certificate_name() == "renewed"
    await before.send(gate.request(PULL, b"x", north.headers()))
    assert (await before.answer()).status == 200


async def test_a_bad_certificate_is_told_and_not_used(own: Own, north: Site) -> None:
    gate, _ = await own()
    trusted = (gate.folder / "server.crt").read_bytes()
    (gate.folder / "server.crt").write_text("nonsense")
    await gate.reload()
    assert gate.process.stderr is not None
    told = await asyncio.to_thread(gate.process.stderr.readline)
    assert told.startswith(b"U245 ")
    (gate.folder / "server.crt").write_bytes(trusted)
    assert (await gate.ask("fleet", PULL, north.headers())).status == 200


async def test_who_is_removed_is_out_after_a_signal(
    own: Own, north: Site, enrol: Callable[..., None]
) -> None:
    gate, _ = await own()
    client = await gate.connect("fleet")
    await client.send(gate.request(PULL, b"x", north.headers()))
    assert (await client.answer()).status == 200
    enrol(gate.folder)
    (gate.folder / "users.json").write_text("[]")
    await gate.reload()
    await client.send(gate.request(PULL, b"x", north.headers()))
    assert (await client.answer()).raw == gate.strangers_answer
    answer = await gate.ask("control", "/v1/control/list-runs", gate.user("admin"))
    assert answer.raw == gate.strangers_answer


async def test_a_broken_list_keeps_sites_trying(
    own: Own, north: Site, new_site: Callable[[str], Site]
) -> None:
    gate, _ = await own()
    (gate.folder / "sites.json").write_text("{")
    assert (await gate.ask("fleet", PULL, new_site("south").headers())).status == 503
    assert (await gate.ask("fleet", PULL, north.headers())).status == 200


def _fail(*arguments: str) -> tuple[int, str]:
    """Run a gate that cannot start; give its exit status and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "umbel.gate", *arguments],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def _change(config: Path, **changes: object) -> str:
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    return str(config)


def test_an_occupied_port_is_named(prepared: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        doors = [
            {"api": "control", "host": "127.0.0.1", "port": 0},
            {"api": "fleet", "host": "127.0.0.1", "port": port},
        ]
        status, said = _fail(_change(prepared, doors=doors))
    assert status == 3
    assert said.startswith(
        f"U241 port {port} on 127.0.0.1 is taken; the fleet door needs it. Hint:"
    )
    assert said.count("\n") == 1


@pytest.mark.parametrize("host", ["192.0.2.77", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_named(host: str, prepared: Path) -> None:
    doors = [{"api": "fleet", "host": host, "port": 0}]
    status, said = _fail(_change(prepared, doors=doors))
    assert (status, said[:5]) == (2, "U242 ")
    assert host in said


def test_a_key_that_cannot_be_read_is_named(prepared: Path) -> None:
    key = prepared.with_name("server.key")
    key.unlink()
    status, said = _fail(str(prepared))
    assert (status, said[:5]) == (2, "U245 ")
    assert str(key) in said


def test_a_key_of_another_certificate_is_refused(
    prepared: Path, renew: Callable[[Path, str], None]
) -> None:
    key = prepared.with_name("server.key")
    old = key.read_bytes()
    renew(prepared.parent, "other")
    key.write_bytes(old)
    status, said = _fail(str(prepared))
    assert (status, said[:5]) == (2, "U245 ")


def test_old_tls_is_not_spoken(prepared: Path) -> None:
    folder = prepared.parent
    context = tls_context(Tls(folder / "server.crt", folder / "server.key"))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_wrong_configuration_is_named(prepared: Path) -> None:
    assert _fail(_change(prepared, surprise=1))[0] == 2
    assert _fail(str(prepared) + ".missing")[1].startswith("U240 ")


def test_a_runtime_door_to_the_world_stays_shut(prepared: Path) -> None:
    doors = [{"api": "runtime", "host": "192.0.2.1", "port": 0}]
    status, said = _fail(_change(prepared, doors=doors))
    assert (status, said[:5]) == (2, "U440 ")


def test_the_configuration_is_the_only_argument() -> None:
    assert _fail() == (2, "usage: python -m umbel.gate CONFIG.json\n")
    assert _fail("a", "--b")[0] == 2
