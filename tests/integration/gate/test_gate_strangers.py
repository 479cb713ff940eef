from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from umbel.flower.routes import BY_PATH, OURS, ROUTES, Api

if TYPE_CHECKING:
    from tests.integration.gate.conftest import Gate, Own, Site, Upstream

DOORS = ["fleet", "control", "runtime"]
LIST = "/v1/control/list-runs"


async def _all(gate: Gate, door: str, requests: list[bytes]) -> set[bytes]:
    """Send each on a connection of its own; give the different answers."""
    limit = asyncio.Semaphore(8)

    async def one(data: bytes) -> bytes:
        async with limit:
            return (await gate.say(door, data)).raw

    return set(await asyncio.gather(*map(one, requests)))


@pytest.mark.parametrize("door", DOORS)
async def test_a_stranger_gets_the_same_answer_everywhere(
    door: str, gate: Gate, upstream: Upstream
) -> None:
    paths = [route.path for route in (*ROUTES, *OURS)]
    paths += ["/", "/health", "/docs", "/openapi.json", "/v1/fleet/", "*", "//", "/v1/x?y=z"]
    requests = [gate.request(path) for path in paths]
    requests += [
        f"{method} /health HTTP/1.1\r\nhost: x\r\n\r\n".encode()
        for method in ("GET", "HEAD", "OPTIONS", "DELETE")
    ]
    assert await _all(gate, door, requests) == {gate.strangers_answer}
    assert upstream.seen == []


@pytest.mark.parametrize("door", DOORS)
async def test_a_wrong_credential_changes_nothing(
    door: str, gate: Gate, upstream: Upstream, new_site: Callable[[str], Site]
) -> None:
    wrong = new_site("wrong").headers() | {
        "authorization": "Bearer wrong",
        "flwr-task-token": "wrong",
        "flwr-superexec-ts": "1",
        "flwr-superexec-nonce": "wrong",
        "flwr-superexec-body-sha256": "0" * 64,
        "flwr-superexec-signature": "0" * 64,
    }
    requests = [gate.request(route.path, b"x", wrong) for route in (*ROUTES, *OURS)]
    assert await _all(gate, door, requests) == {gate.strangers_answer}
    assert upstream.seen == []


@pytest.mark.parametrize("door", DOORS)
async def test_no_door_opens_another_apis_routes(
    door: str, gate: Gate, upstream: Upstream, north: Site
) -> None:
    everything = north.headers() | gate.user("admin") | gate.task
    requests = [
        gate.request(route.path, b"x", everything)
        for route in (*ROUTES, *OURS)
        if route.api != door
    ]
    assert await _all(gate, door, requests) == {gate.strangers_answer}
    assert upstream.seen == []


async def test_nobody_is_offered_flowers_login(gate: Gate, upstream: Upstream) -> None:
    login = [r.path for r in BY_PATH[Api.CONTROL].values() if r.role is None]
    assert len(login) == 3
    requests = [gate.request(path, b"x", gate.user("admin")) for path in login]
    assert await _all(gate, "control", requests) == {gate.strangers_answer}
    assert upstream.seen == []


@pytest.mark.parametrize(("role", "allowed"), [("viewer", 14), ("operator", 20), ("admin", 39)])
async def test_a_role_opens_its_own_routes(
    role: str, allowed: int, gate: Gate, upstream: Upstream
) -> None:
    statuses = {}
    for route in BY_PATH[Api.CONTROL].values():
        if route.role is not None:
            answer = await gate.ask("control", route.path, gate.user(role))
            statuses[route.path] = answer.status
            if answer.status == 403:
                assert f"needs the role {route.role}" in answer.body.decode()
    assert sorted(set(statuses.values())) in ([200], [200, 403])
    assert list(statuses.values()).count(200) == allowed == len(upstream.seen)


async def test_a_site_with_a_wrong_clock_is_refused(
    gate: Gate, upstream: Upstream, north: Site
) -> None:
    late = datetime.now(UTC) - timedelta(hours=1)
    answer = await gate.ask("fleet", "/v1/fleet/get-run", north.headers(at=late))
    assert answer.raw == gate.strangers_answer
    assert upstream.seen == []


def _smuggled(gate: Gate, headers: dict[str, str]) -> list[bytes]:
    """Requests that hide a second one from one of two readers."""
    plain = gate.request(LIST, b"", headers)
    hidden = gate.request("/v1/control/stop-run", b"", headers)
    chunk = b"0\r\n\r\n" + hidden
    zero, long = b"content-length: 0", b"content-length: %d" % len(chunk)
    return [
        plain.replace(zero, b"content-length: 6\r\ntransfer-encoding: chunked") + chunk,
        plain.replace(zero, b"transfer-encoding: chunked\r\n" + long) + chunk,
        plain.replace(zero, b"transfer-encoding: chunked") + chunk,
        plain.replace(zero, b"transfer-encoding : chunked\r\n" + long) + chunk,
        plain.replace(zero, b"transfer-encoding: xchunked\r\n" + long) + chunk,
        plain.replace(zero, b"x: y\r\n transfer-encoding: chunked\r\n" + long) + chunk,
        plain.replace(zero, b"x: y\ntransfer-encoding: chunked\r\n" + long) + chunk,
        plain.replace(zero, b"content-length: 0\r\n" + long) + chunk,
        plain.replace(zero, long + b"\r\n" + zero) + chunk,
        plain.replace(zero, b"content-length: 0, %d" % len(chunk)) + chunk,
        plain.replace(zero, b"content-length: 0x10") + chunk,
        plain.replace(zero, b"upgrade: h2c\r\nconnection: upgrade") + chunk,
        plain.replace(LIST.encode(), b"http://localhost" + LIST.encode()),
        plain.replace(b" HTTP/1.1\r\n", b" HTTP/1.1\r\n\r\n" + hidden),
        plain.replace(b" HTTP/1.1", b" HTTP/1.0"),
        plain.replace(b"\r\n", b"\n"),
        plain.replace(b"host: localhost", b"host: localhost\r\nhost: other"),
        b"\r\n\r\n" + plain,
        b"\x16\x03\x01" + plain,
    ]


async def test_smuggling_fails_even_with_a_good_token(gate: Gate, upstream: Upstream) -> None:
    attempts = _smuggled(gate, gate.user("admin"))
    for number, attempt in enumerate(attempts):
        client = await gate.connect("control")
        await client.send(attempt + b"\r\n\r\n")
        assert await client.rest() == gate.strangers_answer, number
    assert upstream.seen == []


@pytest.mark.parametrize("door", DOORS)
async def test_plain_http_is_not_answered(door: str, gate: Gate) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.ports[door])
    writer.write(gate.request("/health"))
    try:
        said = await reader.read()
    except ConnectionResetError:
        said = b""
    assert b"HTTP" not in said  # a TLS alert at most
    writer.close()


async def test_only_http_1_1_is_offered(gate: Gate) -> None:
    context = ssl.create_default_context(cafile=str(gate.folder / "server.crt"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection(
        "127.0.0.1", gate.ports["fleet"], ssl=context, server_hostname="localhost"
    )
    chosen = writer.get_extra_info("ssl_object")
    assert chosen.selected_alpn_protocol() == "http/1.1"
    assert chosen.version() in ("TLSv1.2", "TLSv1.3")
    writer.transport.abort()


async def test_who_fails_too_often_is_told_to_wait_and_nobody_else(own: Own, north: Site) -> None:
    gate, _ = await own(failuresPerMinute=3)
    wrong = {"authorization": "Bearer wrong"}
    statuses = [(await gate.ask("control", LIST, wrong)).status for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    other = (await gate.ask("control", "/no-such", wrong)).raw
    assert other == (await gate.ask("control", LIST)).raw
    assert (await gate.ask("control", LIST, gate.user("viewer"))).status == 200
    assert (await gate.ask("fleet", "/v1/fleet/get-run", north.headers())).status == 200


async def test_a_site_that_joins_is_let_in_at_once(
    own: Own, north: Site, new_site: Callable[[str], Site], enrol: Callable[..., None]
) -> None:
    gate, _ = await own()
    south = new_site("south")
    assert (await gate.ask("fleet", "/v1/fleet/get-run", south.headers())).status == 401
    enrol(gate.folder, north, south)
    assert (await gate.ask("fleet", "/v1/fleet/get-run", south.headers())).status == 200
    assert (await gate.ask("fleet", "/v1/fleet/get-run", north.headers())).status == 200
