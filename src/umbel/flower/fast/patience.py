"""Lets a SuperNode wait longer for its next message: an idle site asks twice a minute otherwise."""

from __future__ import annotations

import functools
import socket
from importlib import import_module
from typing import Any

from umbel.flower.fast.hold import LONG_HOLD_S, PATIENT

PULL = "/v1/fleet/pull-messages"
WAIT_S = LONG_HOLD_S + 20
# A connection that died silently must be noticed by who waits that long.
ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


def install() -> None:
    """Let the clients of this process say that they are patient, and be it."""
    client: Any = import_module("flwr.supercore.protobuf.client").ProtobufClient
    client.__init__ = _kept_alive(client.__init__)
    client._unary_unary = _patient(client._unary_unary)  # noqa: SLF001


def _kept_alive(stock: Any) -> Any:
    @functools.wraps(stock)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        self._client._transport._pool._socket_options = ALIVE  # noqa: SLF001

    return init


def _patient(stock: Any) -> Any:
    @functools.wraps(stock)
    def unary(self: Any, *, path: str, timeout: float | None = None, **call: Any) -> Any:
        if path.endswith(PULL) and timeout is None:
            self._client.headers[PATIENT.decode()] = "1"
            timeout = WAIT_S
        return stock(self, path=path, timeout=timeout, **call)

    return unary
