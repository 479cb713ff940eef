"""Asks the daemon and the nursery, on their sockets."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from umbel.agent.supervisor import last_words
from umbel.diagnosis.facts import Keeper, KeeperState, Unseen
from umbel.diagnosis.gather.processes import environment_of, executable_of
from umbel.flower import commands
from umbel.model.status import Condition
from umbel.sockets import reachable

ANSWER_S = 1.5
_GOOD = 200

Ask = Callable[[socket.socket], dict[str, Any]]


def daemon(home: Path) -> Keeper:
    """Look for the daemon."""
    return _look("daemon", home / "run" / "umbel.sock", home / "daemon.log", _version)


def nursery(home: Path) -> Keeper:
    """Look for the nursery."""
    seen = _look("nursery", home / "run" / "nursery.sock", home / "nursery.log", _hello)
    had = environment_of(seen.pid) if seen.pid else None
    switches = {k: v for k, v in commands.quiet(home).items() if k != "FLWR_HOME"}
    calls = had is not None and any(had.get(name) != value for name, value in switches.items())
    return replace(seen, lets_flower_call=calls)


def conditions(home: Path, federation: str) -> tuple[Condition, ...] | Unseen:
    """Let the daemon tell how a federation does."""
    try:
        with _connected(home / "run" / "umbel.sock") as connection:
            answer = _get(connection, f"/v1/federations/{quote(federation)}")
        return tuple(Condition(**item) for item in answer["conditions"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        return Unseen(_why(error))


def _look(name: str, path: Path, log: Path, ask: Ask) -> Keeper:
    try:
        if not path.is_socket():
            return Keeper(name, KeeperState.ABSENT, last_words=_complaints(log))
        connection = _connected(path)
    except ConnectionRefusedError as error:
        return Keeper(name, KeeperState.STALE, _why(error), last_words=_complaints(log))
    except OSError as error:
        return Keeper(name, KeeperState.SILENT, _why(error))
    try:
        with connection:
            answer = ask(connection)
            pid = int(answer["pid"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        return Keeper(name, KeeperState.SILENT, _why(error))
    version = str(answer.get("umbel", ""))
    return Keeper(name, KeeperState.ALIVE, "", pid, version, executable_of(pid))


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_S)
    try:
        with reachable(path) as short:
            connection.connect(short)
    except OSError:
        connection.close()
        raise
    return connection


def _version(connection: socket.socket) -> dict[str, Any]:
    answer = _get(connection, "/v1/version")
    return {"umbel": answer["umbel"], "pid": answer["pids"][0]}


def _hello(connection: socket.socket) -> dict[str, Any]:
    connection.sendall(b'{"op": "hello"}\n')
    with connection.makefile("rb") as file:
        answer: dict[str, Any] = json.loads(file.readline())
    return answer


def _get(connection: socket.socket, path: str) -> dict[str, Any]:
    request = f"GET {path} HTTP/1.1\r\nHost: umbel\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode("ascii"))
    response = http.client.HTTPResponse(connection)
    response.begin()
    if response.status != _GOOD:
        raise ValueError(f"answer {response.status}")
    answer: dict[str, Any] = json.loads(response.read())
    return answer


def _complaints(log: Path) -> str:
    """Give the last words, unless all was well."""
    said = last_words({"log": log}) if log.exists() else ""
    return " / ".join(part for part in said.split(" / ") if part and " INFO " not in part)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_S:g} s"
    return str(error) or type(error).__name__
