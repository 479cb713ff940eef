"""What an idle federation does not do."""

from __future__ import annotations

import socket
import threading
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from flwr.proto import fleet_pb2, heartbeat_pb2, node_pb2
from flwr.supercore.date import now
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.superlink.routers.fleet import node_auth
from flwr.supernode import node_auth_http_interceptor
from flwr.supernode.fleet_http_client import FleetHttpClient

from umbel.flower.fast import pulse, signatures, ticks
from umbel.flower.fast.asgi import Answer, Receive, Scope, Send

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Link

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


class TestAPull:
    def test_keeps_its_node_online(self, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
        state: Any = type(link.state)
        monkeypatch.setattr(state, "get_message_ins", state.get_message_ins)
        link.state.deactivate_node(link.site.node_id)
        assert link.site.node_id not in link.state.get_nodes(link.run_id)
        pulse.count_pulls()

        link.node_pulls()

        (node,) = link.state.get_node_info(node_ids=[link.site.node_id])
        assert node.status == "online"
        assert node.online_until > now().timestamp() + pulse.INTERVAL_S

    @pytest.fixture
    def fleet(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A SuperNode's client; `answers` is what its server says, `sent` what it asked."""
        client: Any = ProtobufClient

        def answered(self: Any, context: Any) -> httpx.Response:
            self.sent.append(context.request.url.path)
            return httpx.Response(200, headers=self.answers, request=context.request)

        monkeypatch.setattr(client, "_send", answered)
        monkeypatch.setattr(FleetHttpClient, "SendNodeHeartbeat", FleetHttpClient.SendNodeHeartbeat)
        pulse.spare_heartbeats()
        made: Any = FleetHttpClient("http://127.0.0.1:1")
        made.sent, made.answers = [], {pulse.HEADER: "1"}
        yield made
        made.close()

    def test_spares_the_heartbeat_at_a_server_that_counts_pulls(self, fleet: Any) -> None:
        fleet.PullMessages(PULL)
        assert fleet.SendNodeHeartbeat(heartbeat_pb2.SendNodeHeartbeatRequest()).success
        assert fleet.sent == [pulse.PULL]

    def test_spares_none_at_another_server_or_when_it_is_long_ago(
        self, fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        beat = heartbeat_pb2.SendNodeHeartbeatRequest()
        fleet.SendNodeHeartbeat(beat)
        fleet.PullMessages(PULL)
        monkeypatch.setattr(pulse, "FRESH_S", 0.0)
        fleet.SendNodeHeartbeat(beat)
        monkeypatch.undo()
        assert fleet.sent == [pulse.BEAT, pulse.PULL, pulse.BEAT]

    def test_spares_none_once_the_server_says_no_more(self, fleet: Any) -> None:
        fleet.PullMessages(PULL)
        fleet.answers = {}
        fleet.PullMessages(PULL)
        fleet.SendNodeHeartbeat(heartbeat_pb2.SendNodeHeartbeatRequest())
        assert fleet.sent == [pulse.PULL, pulse.PULL, pulse.BEAT]


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
