from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from umbel.flower.routes import Api
from umbel.gate.config import (
    Config,
    Door,
    GateConfigInvalid,
    Limits,
    RuntimeDoorExposed,
    Tls,
    read,
)


def config(**changes: Any) -> dict[str, Any]:
    return {
        "doors": [{"api": "fleet", "host": "::", "port": 9092}],
        "tls": {"certificate": "/t/server.crt", "key": "/t/server.key"},
        "upstream": "/t/superlink.sock",
        "users": "/t/users.json",
        "sites": "/t/sites.json",
        "audit": "/t/audit.jsonl",
        **changes,
    }


def read_from(tmp_path: Path, data: Any) -> Config:
    path = tmp_path / "gate.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return read(path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    wanted = Config(
        doors=(Door(Api.FLEET, "::", 9092), Door(Api.RUNTIME, "127.0.0.1", 0)),
        tls=Tls(Path("/t/c"), Path("/t/k")),
        upstream=Path("/t/s"),
        users=Path("/t/u"),
        sites=Path("/t/i"),
        audit=Path("/t/a"),
        limits=Limits(header_seconds=0.5, connections=7),
    )
    assert read_from(tmp_path, wanted.to_json()) == wanted
    assert '"headerSeconds": 0.5' in wanted.to_json()


def test_a_desk_is_told_if_there_is_one(tmp_path: Path) -> None:
    assert read_from(tmp_path, config()).desk is None
    with_desk = read_from(tmp_path, config(desk="/t/desk.sock"))
    assert with_desk.desk == Path("/t/desk.sock")
    assert read_from(tmp_path, with_desk.to_json()) == with_desk
    for wrong in ("desk.sock", 7, None):
        with pytest.raises(GateConfigInvalid, match="desk"):
            read_from(tmp_path, config(desk=wrong))


def test_limits_have_defaults(tmp_path: Path) -> None:
    limits = read_from(tmp_path, config()).limits
    assert limits == Limits()
    assert {limits.body_bytes(api) for api in Api} == {64 << 20}


def test_each_api_has_its_own_body_limit(tmp_path: Path) -> None:
    limits = read_from(tmp_path, config(limits={"fleetBodyBytes": 5})).limits
    assert (limits.body_bytes(Api.FLEET), limits.body_bytes(Api.CONTROL)) == (5, 64 << 20)


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        ("", "is not JSON"),
        ("[]", "an object at the top"),
        (config(doors=[]), "has no doors"),
        (config(doors=[{"api": "fleet", "host": "x"}]), "lacks doors[0].port"),
        (config(doors=[{"api": "admin", "host": "x", "port": 1}]), "no api 'admin'"),
        (config(doors=[{"api": "fleet", "host": "", "port": 1}]), "without a host"),
        (config(doors=[{"api": "fleet", "host": "x", "port": 65536}]), "out of range: 65536"),
        (config(doors=[{"api": "fleet", "host": "x", "port": True}]), "doors[0].port"),
        (config(doors=["fleet"]), "an object at doors[0]."),
        (config(tls={"certificate": "/a"}), "lacks tls.key"),
        (config(tls={"certificate": "/a", "key": "b"}), "absolute path at tls.key"),
        (config(tls={"certificate": "/a", "key": "/b", "x": 1}), "unknown key tls.x"),
        (config(surprise=1), "unknown key surprise"),
        (config(upstream=5), "wrong value at upstream"),
        (config(limits={"header_bytes": 1}), "unknown key limits.header_bytes"),
        (config(limits={"headerBytes": 1.5}), "wrong value at limits.headerBytes"),
        (config(limits={"idleSeconds": 0}), "positive number at limits.idleSeconds"),
    ],
)
def test_a_mistake_is_named(data: Any, fact: str, tmp_path: Path) -> None:
    with pytest.raises(GateConfigInvalid) as caught:
        read_from(tmp_path, data)
    assert fact in caught.value.fact
    assert caught.value.exit_status == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GateConfigInvalid, match="cannot be read"):
        read(tmp_path / "no.json")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_the_runtime_door_opens_on_loopback(host: str, tmp_path: Path) -> None:
    door = {"api": "runtime", "host": host, "port": 1}
    assert read_from(tmp_path, config(doors=[door])).doors[0].host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "127.0.0.1.org"])  # noqa: S104
def test_the_runtime_door_opens_nowhere_else(host: str, tmp_path: Path) -> None:
    door = {"api": "runtime", "host": host, "port": 1}
    with pytest.raises(RuntimeDoorExposed, match="U440"):
        read_from(tmp_path, config(doors=[door]))
