"""Lets a SuperNode that is told to end finish its message first, and leave without a word.

A SuperNode that signs off has its pending messages fail at once. One that only goes away for a
moment should not: its successor signs off and on again in one breath, and takes them up.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any


class _Drain:
    """One message at a time is in work: from its arrival to the end of its reply."""

    def __init__(self) -> None:
        self.busy = False
        self.asked = False

    def ask(self, _number: int, _frame: FrameType | None) -> None:
        """Go at once, or as soon as the message is done."""
        self.asked = True
        if not self.busy:
            _leave()

    def rest(self) -> None:
        """Nothing is in work; go now if that was asked for."""
        self.busy = False
        if self.asked:
            _leave()


def _leave() -> None:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def install() -> None:
    """Change how the SuperNode of this process takes SIGTERM."""
    loop: Any = import_module("flwr.supernode.start_client_internal")
    drain = _Drain()
    pull, push, register = (
        loop._pull_and_store_message,  # noqa: SLF001  # Flower has no other place for it
        loop._push_messages,  # noqa: SLF001
        loop.register_signal_handlers,
    )

    @functools.wraps(pull)
    def pulled(*args: Any, receive: Any, **kwargs: Any) -> Any:
        def received() -> Any:
            found = receive()
            drain.busy = found is not None
            return found

        result = pull(*args, receive=received, **kwargs)
        if result is None:
            drain.rest()
        return result

    @functools.wraps(push)
    def pushed(*args: Any, **kwargs: Any) -> Any:
        result = push(*args, **kwargs)
        drain.rest()
        return result

    @functools.wraps(register)
    def registered(*args: Any, **kwargs: Any) -> Any:
        result = register(*args, **kwargs)
        signal.signal(signal.SIGTERM, drain.ask)
        return result

    loop._pull_and_store_message = pulled  # noqa: SLF001
    loop._push_messages = pushed  # noqa: SLF001
    loop.register_signal_handlers = registered


def take_over(note: Path) -> None:
    """Let this process's SuperNode take the place of one that left without a word.

    While that one counts as online the SuperLink refuses us. `note` holds the node's id: it is signed
    off and on again by the same key, one request after the other, so that its messages wait for us.
    """
    client: Any = import_module("flwr.supernode.fleet_http_client").FleetHttpClient
    request: Any = import_module("flwr.proto.fleet_pb2").DeactivateNodeRequest
    refused: Any = import_module("httpx").HTTPStatusError
    stock = client.ActivateNode

    @functools.wraps(stock)
    def activate(self: Any, asked: Any) -> Any:
        try:
            return stock(self, asked)
        except refused:
            node_id = _noted(note)
            if node_id is None:
                raise
            self.DeactivateNode(request(node_id=node_id))
            return stock(self, asked)

    client.ActivateNode = activate


def _noted(note: Path) -> int | None:
    try:
        return int(note.read_text())
    except (OSError, ValueError):
        return None
