"""Goes to the gate's doors as a client would, and as a stranger."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import socket
import ssl
import threading
from pathlib import Path

from umbel.diagnosis.facts import DoorSeen

CONNECT_S = 1.0
RESOLVE_S = 1.0
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # where to dial what listens there


def look(config: Path, bundle: Path, endpoint: str) -> tuple[DoorSeen, ...]:
    """Try every door that the gate was told to open."""
    try:
        doors = json.loads(config.read_bytes())["doors"]
        context = ssl.create_default_context(cafile=bundle)
    except (OSError, ValueError, KeyError, TypeError):
        return ()  # no gate was ever started, or its files are gone: certificates tell
    found = []
    for door in doors:
        host = _ANYWHERE.get(door["host"], door["host"])
        name = host if door["api"] == "runtime" else endpoint
        found.append(try_door(door["api"], (host, int(door["port"])), name.strip("[]"), context))
    return tuple(found)


def try_door(api: str, address: tuple[str, int], name: str, context: ssl.SSLContext) -> DoorSeen:
    """Connect, shake hands with who must be called `name`, and ask without a credential."""
    text = f"{address[0]}:{address[1]}"
    try:
        plain = socket.create_connection(address, CONNECT_S)
    except OSError as error:
        return DoorSeen(api, text, closed=_why(error))
    try:
        with plain, context.wrap_socket(plain, server_hostname=name) as secured:
            return DoorSeen(api, text, stranger=_ask_as_stranger(secured))
    except ssl.SSLCertVerificationError as error:
        return DoorSeen(api, text, untrusted=error.verify_message)
    except OSError as error:  # an SSLError is one
        return DoorSeen(api, text, untrusted=_why(error))


def _ask_as_stranger(connection: ssl.SSLSocket) -> int:
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: umbel\r\nConnection: close\r\n\r\n")
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status
    return 0


def why_unresolved(endpoint: str) -> str:
    """Say why a name is not known here; an address needs no name server."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(endpoint.strip("[]"))
        return ""
    answers: list[str] = []

    def resolve() -> None:
        try:
            socket.getaddrinfo(endpoint, None)
            answers.append("")
        except OSError as error:
            answers.append(error.strerror or str(error))

    # A name server may keep us waiting for long; the thread does not keep the process.
    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(RESOLVE_S)
    return answers[0] if answers else f"the name server did not answer within {RESOLVE_S:g} s"


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_S:g} s"
    return error.strerror or str(error)
