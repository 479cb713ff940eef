"""Ports that nobody has."""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping

from umbel.errors import WorldError

PREFERRED = {"fleet": 9092, "control": 9093, "runtime": 9091}
FIRST_SITE_PORT = 9094
_LAST = 32_000  # below the range that the kernel gives to outgoing connections


class PortTaken(WorldError):
    """A port that the document asks for is in use by somebody else."""

    code = "U220"
    exit_status = 2

    def __init__(self, purpose: str, port: int) -> None:
        super().__init__(
            f"port {port} ({purpose}) is in use by another program",
            hint=f"ss -ltnp 'sport = :{port}' shows which; or take "
            f"spec.superlink.ports.{purpose} out of the document: a free port is chosen then",
        )


class NoPortFree(WorldError):
    """No port is left."""

    code = "U221"

    def __init__(self) -> None:
        super().__init__("no free port was found", hint="ss -ltn shows what listens")


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether one could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose(
    wanted: Mapping[str, int | None],
    remembered: Mapping[str, int],
    taken: Collection[int],
    in_use: Collection[str] = (),
) -> dict[str, int]:
    """Give every purpose a port: the declared, else the remembered, else a free one.

    `taken` belong to other federations; purposes `in_use` are being listened on by ourselves.
    """
    chosen: dict[str, int] = {}
    for purpose, declared in wanted.items():
        known = declared or remembered.get(purpose)
        if known and purpose in in_use and remembered.get(purpose) == known:
            chosen[purpose] = known
        elif declared:
            if declared in taken or not is_free(declared):
                raise PortTaken(purpose, declared)
            chosen[purpose] = declared
        else:
            chosen[purpose] = _free(purpose, known, {*taken, *chosen.values()})
    return chosen


def _free(purpose: str, known: int | None, taken: Collection[int]) -> int:
    if known and known not in taken and is_free(known):
        return known
    first = PREFERRED.get(purpose, FIRST_SITE_PORT)
    for port in range(first, _LAST):
        reserved = port in PREFERRED.values() and port != first
        if not reserved and port not in taken and is_free(port):
            return port
    raise NoPortFree
