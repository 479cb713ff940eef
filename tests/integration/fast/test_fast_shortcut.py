"""The short way lets nobody in whom Flower's own way keeps out, and answers alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from flwr.common.constant import SUPERLINK_NODE_ID, TIMESTAMP_HEADER
from flwr.proto import fleet_pb2, heartbeat_pb2, message_pb2, node_pb2, runtime_pb2
from flwr.supercore.constant import (
    FLEET_HTTP_SIGNATURE_HEADER,
    FLWR_COMPONENT_NAME_METADATA_KEY,
    FLWR_PACKAGE_NAME_METADATA_KEY,
    FLWR_PACKAGE_VERSION_METADATA_KEY,
    TASK_TOKEN_HEADER,
)
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
from flwr.supernode import main as supernode_main
from starlette.middleware.base import BaseHTTPMiddleware

from umbel.flower.fast import shortcut
from umbel.flower.fast.shortcut import is_plain

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Contents, Seen, Served, Visit

FLEET = [f"/v1/fleet/{name}" for name in shortcut.FLEET]
RUNTIME = [f"/v1/runtime/{name}" for name in (*shortcut.WITH_HANDLERS, *shortcut.WITHOUT_HANDLERS)]
ACQUIRE = "/v1/runtime/acquire-task"
PLAIN = {"content-type": "application/protobuf"}


def request_for(path: str, node_id: int) -> bytes:
    """Make a request that names the node, where the route's requests do."""
    request: Any = PROTOBUF_REQUEST_TYPES["POST", path]()
    if "node" in request.DESCRIPTOR.fields_by_name:
        request.node.node_id = node_id
    return bytes(request.SerializeToString())


async def both(
    served: Served, visit: type[Visit], path: str, body: bytes, headers: dict[str, str]
) -> Seen:
    """Ask both ways; the answers are the same."""
    stock = await visit(path, body, headers).pay(served.app)
    quick = await visit(path, body, headers).pay(served.quick)
    assert quick == stock
    assert stock.whole
    return stock


def test_the_routes_of_the_short_way_are_flowers_own(served: Served) -> None:
    known = {path for _, path in PROTOBUF_REQUEST_TYPES}
    short = {*FLEET, *RUNTIME, ACQUIRE, "/v1/control/register-node"}
    assert short == set(served.quick._shortcut._serve) <= known


@pytest.mark.parametrize("path", FLEET)
async def test_a_stranger_gets_nothing_from_the_fleet_routes(
    served: Served, visit: type[Visit], path: str
) -> None:
    site, other = served.link.site, served.link.joined()
    body = request_for(path, site.node_id)
    signed = site.headers()
    old = {**signed, TIMESTAMP_HEADER: "2026-01-01T00:00:00+00:00"}
    forged = {**signed, FLEET_HTTP_SIGNATURE_HEADER: other.headers()[FLEET_HTTP_SIGNATURE_HEADER]}
    garbled = {**signed, FLEET_HTTP_SIGNATURE_HEADER: "!"}
    for headers in (PLAIN, old, forged, garbled, other.headers()):
        assert (await both(served, visit, path, body, headers)).status == 401


@pytest.mark.parametrize("path", RUNTIME)
async def test_a_stranger_gets_nothing_from_the_runtime_routes(
    served: Served, visit: type[Visit], path: str
) -> None:
    body = request_for(path, SUPERLINK_NODE_ID)
    for token in (None, "", "0" * 64, served.link.token[:-1]):
        headers = PLAIN if token is None else {**PLAIN, TASK_TOKEN_HEADER: token}
        assert (await both(served, visit, path, body, headers)).status == 401


@pytest.mark.parametrize("path", [*RUNTIME, ACQUIRE])
async def test_a_caller_of_another_version_is_refused_alike(
    served: Served, visit: type[Visit], path: str
) -> None:
    version = {
        FLWR_PACKAGE_NAME_METADATA_KEY: "flwr",
        FLWR_PACKAGE_VERSION_METADATA_KEY: "0.1.0",
        FLWR_COMPONENT_NAME_METADATA_KEY: "ServerApp",
    }
    body = request_for(path, SUPERLINK_NODE_ID)
    seen = await both(served, visit, path, body, served.link.token_headers | version)
    assert 400 <= seen.status < 500
    assert b"version" in seen.body


async def test_a_stranger_gets_no_task(served: Served, visit: type[Visit]) -> None:
    body = runtime_pb2.AcquireTaskRequest(supported_task_types=["flwr-serverapp"])
    content = body.SerializeToString()
    for headers in (PLAIN, served.link.token_headers, served.link.site.headers()):
        assert (await both(served, visit, ACQUIRE, content, headers)).status == 401


@pytest.mark.parametrize("path", [*FLEET, *RUNTIME, ACQUIRE])
async def test_a_body_that_is_no_request_is_refused_alike(
    served: Served, visit: type[Visit], path: str
) -> None:
    headers = served.link.site.headers() | served.link.token_headers
    assert (await both(served, visit, path, b"\xff\xff", headers)).status == 400
    other = {**headers, "content-type": "application/json"}
    assert (await both(served, visit, path, b"", other)).status == 415


@pytest.mark.parametrize("path", [FLEET[0], RUNTIME[0], ACQUIRE])
async def test_another_method_takes_the_usual_way(
    served: Served, visit: type[Visit], path: str
) -> None:
    stock = await visit(path, b"").pay(served.app, "GET")
    assert await visit(path, b"").pay(served.quick, "GET") == stock
    assert stock.status == 405


async def test_a_node_is_answered_alike(served: Served, visit: type[Visit]) -> None:
    link, site = served.link, served.link.site
    beat = heartbeat_pb2.SendNodeHeartbeatRequest(node=site.node, heartbeat_interval=30)
    pull = message_pb2.PullObjectRequest(node=site.node, run_id=link.run_id, object_id="ab" * 32)
    for path, request in (
        ("/v1/fleet/send-node-heartbeat", beat),
        ("/v1/fleet/pull-object", pull),
        ("/v1/fleet/pull-messages", fleet_pb2.PullMessagesRequest(node=site.node)),
    ):
        seen = await both(served, visit, path, request.SerializeToString(), site.headers())
        assert (seen.status, seen.kind) == (200, "application/protobuf")


async def test_a_task_is_answered_alike(served: Served, visit: type[Visit]) -> None:
    for name in ("get-nodes", "pull-messages", "send-task-heartbeat", "pull-object"):
        path = f"/v1/runtime/{name}"
        body = request_for(path, SUPERLINK_NODE_ID)
        seen = await both(served, visit, path, body, served.link.token_headers)
        assert (seen.status, seen.kind) == (200, "application/protobuf")


async def test_what_a_handler_refuses_is_refused_alike(served: Served, visit: type[Visit]) -> None:
    path, headers = "/v1/runtime/pull-object", served.link.token_headers
    assert (await both(served, visit, path, request_for(path, 5), headers)).status >= 400
    path = "/v1/runtime/push-messages"
    assert (await both(served, visit, path, b"", headers)).status == 500


async def test_other_routes_take_the_usual_way(served: Served, visit: type[Visit]) -> None:
    for path in ("/v1/nothing", "/v1/fleet/activate-node", "/v1/fleet/pull-messages/"):
        await both(served, visit, path, b"", PLAIN)


@pytest.mark.parametrize("way", ["app", "quick"])
async def test_an_object_with_a_wrong_content_can_be_pushed_again(
    served: Served, visit: type[Visit], contents: Contents, way: str
) -> None:
    link, path = served.link, "/v1/runtime/push-object"
    message = link.made(f"wrong, then right, by {way}")
    session = link.announced(message)
    (first, content), *_ = contents(message).items()
    stored = []
    for body in (b"wrong", content):
        request = message_pb2.PushObjectRequest(
            node=node_pb2.Node(node_id=SUPERLINK_NODE_ID), run_id=link.run_id, object_id=first,
            object_content=body, session_id=session,
        )  # fmt: skip
        one = visit(path, request.SerializeToString(), link.token_headers)
        answer = (await one.pay(getattr(served, way))).body
        stored.append(message_pb2.PushObjectResponse.FromString(answer).stored)
    assert stored == [False, True]


class FurtherLayer(BaseHTTPMiddleware):
    """Perhaps one that authenticates."""


class TestPlain:
    """Whether the short way may be taken at all."""

    def test_flowers_own_apps_are_plain(self, served: Served) -> None:
        assert is_plain(served.app)
        assert is_plain(supernode_main.create_app())

    def test_an_app_with_a_further_layer_is_not(self) -> None:
        app: Any = supernode_main.create_app()
        app.add_middleware(FurtherLayer)
        assert not is_plain(app)

    def test_an_app_that_logs_events_is_not(self) -> None:
        app: Any = supernode_main.create_app()
        app.state.fleet_event_log_plugin = object()
        assert not is_plain(app)

    def test_an_app_that_traces_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FLWR_TRACING_ENABLED", "1")
        assert not is_plain(supernode_main.create_app())
