"""Counts failures by peer: who fails too often is told to wait."""

from __future__ import annotations

import ipaddress

_PEERS = 4096


class Throttle:
    """A bucket of failures for each peer, refilled with time.

    Only failures are held back. A right token always passes, so that nobody can lock out the
    people who share an address with him; a token has 256 bits and is not found by trying.
    """

    def __init__(self, per_minute: int) -> None:
        self._full = float(per_minute)
        self._left: dict[str, tuple[float, float]] = {}  # peer: (failures left, at)

    def fail(self, peer: str, now: float) -> bool:
        """Count a failure; tell whether the peer has used up what it has."""
        left, at = self._left.pop(peer, (self._full, now))
        left = min(self._full, left + (now - at) * self._full / 60.0)
        spent = left < 1.0
        if len(self._left) >= _PEERS:
            del self._left[next(iter(self._left))]  # the one that failed longest ago
        self._left[peer] = (left if spent else left - 1.0, now)
        return spent


def network_of(address: str) -> str:
    """Give the name under which an address is counted: itself, or its /64 network."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False)) if not ip.is_loopback else str(ip)
