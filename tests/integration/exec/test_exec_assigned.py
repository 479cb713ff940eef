"""One SuperNode, two executors as they are in pods of their own, two apps at the same time."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.exactness.conftest import bring_up
from tests.integration.exactness.test_exact_mixed import running, superexec
from tests.integration.federation.conftest import until

from stock import free_range
from umbel.agent.pod.places import CONFIG, RUNTIME, Places
from umbel.flower import commands
from umbel.flower.environments import secret_of
from umbel.identity import alone, node_keys
from umbel.identity.roster import Roster
from umbel.targets.local.layout import Layout

if TYPE_CHECKING:
    from tests.integration.exec.conftest import MakeApp
    from tests.integration.federation.conftest import Home, MakeHome

MASTER = b"m" * 32
APPS = {"vision": "fixtures/vision", "text": "fixtures/text"}
TWO_ROUNDS = ("-c", "num-server-rounds=2", "-c", "min-nodes=2")
_NODE = """
import json, sys
from pathlib import Path
from umbel.flower import launch
from umbel.flower.environments import all_served
argv, wake, ready, master, apps = json.loads(sys.argv[1])
served = all_served(bytes.fromhex(master), apps)
launch.supernode(argv, Path(wake), Path(ready), environments=served)
"""


@pytest.fixture
def hub(make_home: MakeHome) -> Home:
    home = make_home("assigned")
    bring_up(home, "assigned", 1)
    return home


def pod(folder: Path, name: str) -> Path:
    """Give the root of an environment's pod."""
    return folder / f"pod-{name}"


def enrolled(home: Home, folder: Path) -> Path:
    """Let a further site in; gives its key."""
    layout = Layout(home.path, "assigned")
    key, to_write = node_keys.prepare(folder)
    for path, content in to_write.items():
        path.write_bytes(content)
        path.chmod(0o600)
    Roster(layout.roster).add("guest", key.fingerprint)
    os.kill(home.units("assigned")["hub/gate"], signal.SIGHUP)
    home.umbel("connect", str(folder / "flwr"), "-n", "assigned").ok()
    env = {**home.env, **commands.quiet(folder / "flwr")}
    home.call("flwr", "supernode", "register", str(key.public_path), "assigned", env=env).ok()
    return folder / node_keys.PRIVATE


def supernode(home: Home, folder: Path, tls: alone.Alone, port: int) -> tuple[str, ...]:
    layout = Layout(home.path, "assigned")
    doors = json.loads(layout.gate_config.read_text())["doors"]
    fleet = next(door["port"] for door in doors if door["api"] == "fleet")
    argv = commands.supernode_argv(
        fleet=f"localhost:{fleet}",
        ca=layout.bundle,
        key=enrolled(home, folder),
        runtime_port=port,
        tls=commands.Tls(tls.ca, tls.certificate, tls.key),
        superexec_secret=folder / "own.secret",
        node_config={"partition-id": 1, "num-partitions": 2},
    )
    order = [argv, str(folder / "wake"), str(folder / "ready"), MASTER.hex(), APPS]
    return (sys.executable, "-c", _NODE, json.dumps(order))


def executor(folder: Path, name: str, tls: alone.Alone, port: int) -> tuple[str, ...]:
    """Lay out a pod of this environment below the folder; gives the command of its container."""
    places = Places(pod(folder, name))
    told: dict[str, Any] = {
        "site": name, "environment": name, "address": f"localhost:{port}", "warm": True,
        "poll_s": 300.0, "task_timeout_s": 600.0, "per_task": {}, "has": {}, "wheels": None,
    }  # fmt: skip
    for path in (CONFIG, RUNTIME, "/tmp"):  # below the folder
        places.at(path).mkdir(parents=True)
    (places.at(CONFIG) / "app.json").write_text(json.dumps(told))
    (places.at(RUNTIME) / "ca.crt").write_bytes(tls.ca.read_bytes())
    (places.at(RUNTIME) / "exec.secret").write_bytes(secret_of(MASTER, name))
    root = f"UMBEL_POD_ROOT={places.root}"
    return ("/usr/bin/env", root, sys.executable, "-m", "umbel.agent.pod.roles", "app")


def served_by(folder: Path) -> dict[str, set[str]]:
    """Say which runs each executor has worked for."""
    runs = {name: Places(pod(folder, name)).scratch / "runs" for name in APPS}
    return {
        name: {found.name for found in at.iterdir()} if at.is_dir() else set()
        for name, at in runs.items()
    }


@pytest.mark.timeout(240)
def test_each_executor_gets_the_tasks_of_its_own_app(
    hub: Home, make_app: MakeApp, tmp_path: Path
) -> None:
    (tmp_path / "own.secret").write_bytes(b"o" * 32)
    port = free_range(1)
    tls = alone.ensure(tmp_path, "runtime", ["localhost", "127.0.0.1"], now=datetime.now(UTC))
    env = {**hub.env, **commands.quiet(tmp_path / "flwr")}
    stock = superexec(port, tls.ca, tmp_path / "own.secret")
    pods = [executor(tmp_path, name, tls, port) for name in APPS]
    with running(tmp_path, env, supernode(hub, tmp_path, tls, port), *pods, stock):
        until((tmp_path / "ready").exists, "the SuperNode is connected")
        for name in APPS:
            until(Places(pod(tmp_path, name)).reached.exists, f"{name} reaches it")
        ids = {n: hub.submit(make_app(n), *TWO_ROUNDS, name="assigned") for n in (*APPS, "other")}
        for run_id in ids.values():
            assert hub.until_over(run_id, "assigned")["status"] == "completed"
    assert served_by(tmp_path) == {name: {ids[name]} for name in APPS}
    for name in APPS:
        log = Places(pod(tmp_path, name)).scratch / "runs" / ids[name] / "log.txt"
        assert log.exists()
