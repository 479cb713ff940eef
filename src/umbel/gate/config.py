"""What a gate is told: doors, certificate, upstream, who is known, limits.

Plain dataclasses and a strict reader: a gate is small and starts at once, pydantic is neither.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from umbel.errors import SecurityError, WorldError
from umbel.flower.routes import Api

MIB = 1 << 20


class GateConfigInvalid(WorldError):
    """The gate's configuration cannot be used."""

    code = "U240"
    exit_status = 2

    def __init__(self, path: Path, fact: str) -> None:
        super().__init__(
            f"the gate's configuration {path} {fact}",
            hint="umbel writes this file: repeat `umbel up`, or mend the named key",
        )


class RuntimeDoorExposed(SecurityError):
    """The Runtime API would be reachable from other machines."""

    code = "U440"
    exit_status = 2

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the runtime door must listen on a loopback address, not on {host}",
            hint="use 127.0.0.1 or ::1: who reaches this door may ask for tasks",
        )


@dataclass(frozen=True, slots=True)
class Door:
    """One API on one address. Port 0 means any free one."""

    api: Api
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a client may send, and how long it may take. Seconds and bytes."""

    header_bytes: int = 16 * 1024
    header_count: int = 64
    fleet_body_bytes: int = 64 * MIB
    control_body_bytes: int = 64 * MIB
    runtime_body_bytes: int = 64 * MIB
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    body_idle_seconds: float = 30.0
    send_idle_seconds: float = 120.0
    idle_seconds: float = 75.0
    upstream_idle_seconds: float = 30.0
    connections: int = 8192
    connections_per_peer: int = 4096
    failures_per_minute: int = 30
    audit_bytes: int = 16 * MIB
    audit_files: int = 3

    def body_bytes(self, api: Api) -> int:
        """The longest body that a request of this API may have."""
        return {
            Api.FLEET: self.fleet_body_bytes,
            Api.CONTROL: self.control_body_bytes,
            Api.RUNTIME: self.runtime_body_bytes,
        }[api]


@dataclass(frozen=True, slots=True)
class Tls:
    """The server's certificate (a chain is fine) and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Config:
    """All that a gate is told."""

    doors: tuple[Door, ...]
    tls: Tls
    upstream: Path
    users: Path
    sites: Path
    audit: Path
    limits: Limits = Limits()
    desk: Path | None = None
    runtime_tls: Tls | None = None  # the Runtime door's own, where its clients trust no other

    def to_json(self) -> str:
        """Write the configuration as `read` reads it."""
        told = {key: value for key, value in asdict(self).items() if value is not None}
        return json.dumps(_camel_keys(told), indent=2, default=str) + "\n"


def read(path: Path) -> Config:
    """Read the file that `python -m umbel.gate` is given."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise GateConfigInvalid(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise GateConfigInvalid(path, f"is not JSON: {error}") from error
    try:
        config = _config(_Fields(data, ""))
    except _Wrong as error:
        raise GateConfigInvalid(path, str(error)) from error
    for door in config.doors:
        if door.api is Api.RUNTIME and not _is_loopback(door.host):
            raise RuntimeDoorExposed(door.host)
    return config


class _Wrong(ValueError):
    """One key is missing, unknown or of the wrong kind."""


class _Fields:
    """One JSON object, taken apart key by key; what is left over is a mistake."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise _Wrong(f"must have an object at {where or 'the top'}")
        self._data = dict(data)
        self._where = where

    def take(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """Give the value, which must be there and of this kind."""
        if key not in self._data:
            raise _Wrong(f"lacks {self._where}{key}")
        value = self._data.pop(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _Wrong(f"has a wrong value at {self._where}{key}")
        return value

    def path(self, key: str) -> Path:
        """Give an absolute path."""
        path = Path(self.take(key, str))
        if not path.is_absolute():
            raise _Wrong(f"needs an absolute path at {self._where}{key}")
        return path

    def inner(self, key: str) -> _Fields:
        """Give the object under this key."""
        return _Fields(self.take(key, dict), f"{self._where}{key}.")

    def numbers(self, defaults: Mapping[str, float]) -> dict[str, Any]:
        """Give a positive number for each key, whole where the default is whole."""
        found: dict[str, Any] = {}
        for name, default in defaults.items():
            if (key := _camel(name)) in self._data:
                value = self.take(key, int if isinstance(default, int) else (int, float))
                if value <= 0:
                    raise _Wrong(f"needs a positive number at {self._where}{key}")
                found[name] = value
        return found

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._data

    def end(self) -> None:
        """Complain about what nobody asked for."""
        for key in self._data:
            raise _Wrong(f"has an unknown key {self._where}{key}")


def _config(top: _Fields) -> Config:
    doors = tuple(
        _door(_Fields(item, f"doors[{index}]."))
        for index, item in enumerate(top.take("doors", list))
    )
    if not doors:
        raise _Wrong("has no doors")
    tls = top.inner("tls")
    runtime = top.inner("runtimeTls") if top.has("runtimeTls") else None
    config = Config(
        doors=doors,
        tls=_tls(tls),
        upstream=top.path("upstream"),
        users=top.path("users"),
        sites=top.path("sites"),
        audit=top.path("audit"),
        runtime_tls=_tls(runtime) if runtime is not None else None,
        limits=_limits(top.inner("limits")) if top.has("limits") else Limits(),
        desk=top.path("desk") if top.has("desk") else None,
    )
    tls.end()
    if runtime is not None:
        runtime.end()
    top.end()
    return config


def _tls(fields: _Fields) -> Tls:
    return Tls(certificate=fields.path("certificate"), key=fields.path("key"))


def _door(fields: _Fields) -> Door:
    name, host, port = fields.take("api", str), fields.take("host", str), fields.take("port", int)
    if name not in list(Api):
        raise _Wrong(f"knows no api {name!r}: there are {', '.join(Api)}")
    if not host:
        raise _Wrong("has a door without a host")
    if not 0 <= port <= 65535:  # noqa: PLR2004  # the range of ports
        raise _Wrong(f"has a port out of range: {port}")
    fields.end()
    return Door(Api(name), host, port)


def _limits(fields: _Fields) -> Limits:
    limits = Limits(**fields.numbers(asdict(Limits())))
    fields.end()
    return limits


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _camel_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_camel(key): _camel_keys(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_camel_keys(inner) for inner in value]
    return value
