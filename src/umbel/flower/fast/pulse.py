"""A pull is a sign of life: a node that has just asked for work sends no heartbeat beside it.

An idle site asks every 25 s and would send a heartbeat every 20 s. SuperLink takes a pull for a heartbeat
and says so in its answer; from then on a SuperNode of ours leaves out the heartbeats that a pull makes
needless. While a ClientApp works there are no pulls, and heartbeats go out as ever.
"""

from __future__ import annotations

import functools
import time
from importlib import import_module
from typing import Any

from umbel.flower.fast import guard

PULL, BEAT = "/v1/fleet/pull-messages", "/v1/fleet/send-node-heartbeat"
HEADER = "umbel-pulse"
INTERVAL_S = 30.0  # Flower's own; a node is online for twice as long
FRESH_S = 28.0  # a pull is answered after 25 s, and the next one follows

_PULLED = "_umbel_pulled_s"


def count_pulls() -> None:
    """Let this SuperLink take a node's pull for its heartbeat."""
    state: Any = import_module("flwr.server.superlink.linkstate.sql_linkstate").SqlLinkState
    stock = state.get_message_ins

    @functools.wraps(stock)
    def get_message_ins(
        self: Any, node_id: int, limit: int | None, *, run_id: int | None = None
    ) -> Any:
        with self.session():
            if run_id is None:  # a SuperNode asks; AgentApps name their run
                guard.took(guard.Way.PULSE)
                self.acknowledge_node_heartbeat(node_id, INTERVAL_S)
            return stock(self, node_id, limit, run_id=run_id)

    state.get_message_ins = get_message_ins


def spare_heartbeats() -> None:
    """Let this SuperNode leave out heartbeats that its pulls make needless."""
    client: Any = import_module("flwr.supercore.protobuf.client").ProtobufClient
    fleet: Any = import_module("flwr.supernode.fleet_http_client").FleetHttpClient
    client._send = _noting_pulls(client._send)  # noqa: SLF001
    fleet.SendNodeHeartbeat = _unless_fresh(fleet.SendNodeHeartbeat)


def _noting_pulls(stock: Any) -> Any:
    @functools.wraps(stock)
    def send(self: Any, context: Any) -> Any:
        if context.request.url.path != PULL:
            return stock(self, context)
        began_s = time.monotonic()
        counts = hasattr(self, _PULLED)  # the last answer said so
        if counts:
            setattr(self, _PULLED, began_s)
        response = stock(self, context)
        if HEADER in response.headers:
            setattr(self, _PULLED, began_s)
        elif counts:
            delattr(self, _PULLED)
        return response

    return send


def _unless_fresh(stock: Any) -> Any:
    response: Any = import_module("flwr.proto.heartbeat_pb2").SendNodeHeartbeatResponse

    @functools.wraps(stock)
    def send_node_heartbeat(self: Any, *args: Any, **kwargs: Any) -> Any:
        if time.monotonic() - getattr(self, _PULLED, 0.0) < FRESH_S:
            return response(success=True)
        return stock(self, *args, **kwargs)

    return send_node_heartbeat
