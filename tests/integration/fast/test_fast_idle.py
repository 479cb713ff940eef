"""What an idle federation does not do."""

from __future__ import annotations

import asyncio
import socket
import threading
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from flwr.proto import fleet_pb2, node_pb2
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.superlink.routers.fleet import node_auth
from flwr.supernode import node_auth_http_interceptor
from flwr.supernode.fleet_http_client import FleetHttpClient

from umbel.flower.fast import hold, patience, signatures, ticks
from umbel.flower.fast.asgi import Answer, Receive, Scope, Send
from umbel.flower.fast.bells import Bells

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Link, Visit

PULL: Any = fleet_pb2.PullMessagesRequest(node=node_pb2.Node(node_id=7))


async def empty(_: Scope, __: Receive, send: Send) -> None:
    await Answer(200, ((b"content-type", b"application/protobuf"),), b"").send(send)


class TestAWebServerThatSleeps:
    @pytest.fixture(autouse=True)
    def sleepy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(uvicorn.Server, "main_loop", uvicorn.Server.main_loop)
        monkeypatch.setattr(uvicorn.Server, "should_exit", False, raising=False)
        monkeypatch.setattr(ticks, "TICK_S", 1000.0)
        ticks.install()

    def test_ends_when_it_is_told_to_and_answers_until_then(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(empty, log_config=None, lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

        assert httpx.get(url, timeout=30).status_code == httpx.codes.OK
        server.should_exit = True
        thread.join(30)

        assert not thread.is_alive()

    def test_that_is_told_before_it_runs_ends_at_once(self) -> None:
        server = uvicorn.Server(uvicorn.Config(empty, log_config=None, lifespan="off", ws="none"))
        server.should_exit = True

        with socket.create_server(("127.0.0.1", 0)) as listener:
            server.run(sockets=[listener])

        assert server.should_exit


class TestAPatientNode:
    async def test_is_held_longer_than_others(
        self, visit: type[Visit], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hold, "LONG_HOLD_S", 1000.0)
        app = hold.Hold(empty, Bells(), hold_s=0.01)
        kind = {"content-type": "application/protobuf"}
        patient = visit(patience.PULL, PULL.SerializeToString(), kind | {"umbel-patient": "1"})
        other = visit(patience.PULL, PULL.SerializeToString(), kind)

        waiting = asyncio.ensure_future(patient.pay(app))
        assert (await other.pay(app)).whole
        assert not waiting.done()
        patient.left.set()
        await waiting

    def test_says_so_waits_longer_and_notices_a_dead_connection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client: Any = ProtobufClient
        monkeypatch.setattr(client, "__init__", client.__init__)
        monkeypatch.setattr(client, "_unary_unary", client._unary_unary)
        patience.install()
        sent: list[httpx.Request] = []
        fleet: Any = FleetHttpClient("http://127.0.0.1:1")

        def answered(context: Any) -> httpx.Response:
            sent.append(context.request)
            return httpx.Response(200, request=context.request)

        monkeypatch.setattr(fleet, "_send", answered)
        fleet.PullMessages(PULL)
        fleet.close()

        assert sent[0].headers["umbel-patient"] == "1"
        assert sent[0].extensions["timeout"]["read"] == patience.WAIT_S
        assert fleet._client._transport._pool._socket_options == patience.ALIVE


class TestASignature:
    @pytest.fixture(autouse=True)
    def remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("bytes_to_public_key", "verify_signature"):
            monkeypatch.setattr(node_auth, name, getattr(node_auth, name))
        for name in ("now", "sign_message"):
            monkeypatch.setattr(
                node_auth_http_interceptor, name, getattr(node_auth_http_interceptor, name)
            )

    def test_that_was_found_true_stays_true_and_no_other_does(self, link: Link) -> None:
        verify: Any = node_auth.verify_signature
        calls: list[bytes] = []

        def counting(key: Any, message: bytes, signature: bytes) -> bool:
            calls.append(message)
            return bool(verify(key, message, signature))

        node_auth.verify_signature = counting
        signatures.remember_verified()
        check: Any = node_auth.verify_signature
        key, other = link.site, link.joined()
        headers = key.headers()
        signed, at = (headers[name] for name in ("flwr-signature", "flwr-timestamp"))
        proof = b64decode(signed)

        assert check(key.public, at.encode(), proof)
        assert check(key.public, at.encode(), proof)
        assert len(calls) == 1
        assert not check(other.public, at.encode(), proof)
        assert not check(key.public, b"another time", proof)
        assert not check(key.public, at.encode(), other.headers()["flwr-signature"].encode())

    def test_is_made_once_a_second(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module: Any = node_auth_http_interceptor
        start = module.now()
        times = iter([start, start, start + signatures.FRESH / 2, start + signatures.FRESH * 2])
        monkeypatch.setattr(module, "now", lambda: next(times))
        signatures.sign_once_a_second()

        first, second, third = (module.now() for _ in range(3))

        assert first == second == start
        assert third == start + signatures.FRESH * 2
