"""Signs and verifies a node's timestamp once, not with each request of a batch or a round.

Flower signs the time, not the request, and takes a signature for five minutes. So a SuperNode of ours
uses one for a second, and SuperLink remembers which ones it found true; the time is checked each time.
"""

from __future__ import annotations

import functools
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

from umbel.flower.fast import guard

FRESH = timedelta(seconds=1)
REMEMBERED = 4096


def remember_verified() -> None:
    """Let this SuperLink verify each signature once."""
    module: Any = import_module("flwr.superlink.routers.fleet.node_auth")
    parse, verify = module.bytes_to_public_key, module.verify_signature

    @functools.lru_cache(REMEMBERED)
    def verified(public_key: bytes, message: bytes, signature: bytes) -> bool:
        guard.took(guard.Way.SIGNATURES)
        return bool(verify(parse(public_key), message, signature))

    module.bytes_to_public_key = bytes  # parsed where it is needed
    module.verify_signature = verified


def sign_once_a_second() -> None:
    """Let this SuperNode sign at most once a second."""
    module: Any = import_module("flwr.supernode.node_auth_http_interceptor")
    module.now = _Clock(module.now).now
    module.sign_message = functools.lru_cache(2)(module.sign_message)


class _Clock:
    """Stands still for a second."""

    def __init__(self, stock: Any) -> None:
        self._stock = stock
        self._at: datetime = stock() - 2 * FRESH

    def now(self) -> datetime:
        """Give the time, up to a second old."""
        current: datetime = self._stock()
        if not timedelta(0) <= current - self._at < FRESH:
            self._at = current
        return self._at
