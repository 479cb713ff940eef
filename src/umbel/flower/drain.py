"""Lets a SuperNode that is told to end finish its message first."""

from __future__ import annotations

import functools
import signal
from importlib import import_module
from types import FrameType
from typing import Any


class _Drain:
    """One message at a time is in work: from its arrival to the end of its reply."""

    def __init__(self) -> None:
        self.busy = False
        self.asked: tuple[int, Any] | None = None  # the signal that came meanwhile

    def handler(self, stock: Any) -> Any:
        """Give a handler that ends an idle SuperNode as Flower does, and a busy one later."""

        def handle(number: int, frame: FrameType | None) -> None:
            if not self.busy:
                stock(number, frame)
            self.asked = (number, stock)

        return handle

    def rest(self) -> None:
        """Nothing is in work; go now if that was asked for."""
        self.busy = False
        if self.asked is not None:
            number, stock = self.asked
            stock(number, None)


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
        signal.signal(signal.SIGTERM, drain.handler(signal.getsignal(signal.SIGTERM)))
        return result

    loop._pull_and_store_message = pulled  # noqa: SLF001
    loop._push_messages = pushed  # noqa: SLF001
    loop.register_signal_handlers = registered
