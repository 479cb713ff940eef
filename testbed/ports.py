"""Ports on loopback that nobody uses, and that nobody is given by chance."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

LOWEST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Find so many different ports that are free now; all are held until the last is found.

    They lie below those that the kernel gives to outgoing connections: a program that starts some
    seconds later still finds its port free.
    """
    candidates = list(range(LOWEST, _first_ephemeral()))
    random.shuffle(candidates)
    found: list[int] = []
    with ExitStack() as held:
        for port in candidates:
            if len(found) == count:
                break
            one = held.enter_context(socket.socket())
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found


def _first_ephemeral() -> int:
    try:
        first = int(_EPHEMERAL.read_text().split()[0])
    except OSError:
        return 32768
    return first if first > LOWEST + 1000 else 65535
