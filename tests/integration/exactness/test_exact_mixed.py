"""Stock and ours work together: each SuperNode at the other's SuperLink."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.integration.exactness.beside import Stock
from tests.integration.exactness.conftest import (
    APPS,
    LONG,
    assert_all_counted,
    bring_up,
    start_counted,
)
from tests.integration.federation.conftest import MakeHome, until

from stock import BIN, free_range
from umbel.flower import commands
from umbel.identity import node_keys
from umbel.identity.roster import Roster
from umbel.targets.local.layout import Layout

pytestmark = pytest.mark.long

LEAVES_S = 3.0
ROUNDS = 5 if LONG else 2
STOCK_ROUNDS = 5 if LONG else 1  # six seconds each
_OURS = """
import json, sys
from pathlib import Path
from umbel.flower import launch
argv, wake, ready = json.loads(sys.argv[1])
launch.supernode(argv, Path(wake), Path(ready))
"""


@contextlib.contextmanager
def running(folder: Path, env: Mapping[str, str], *commands_: tuple[str, ...]) -> Iterator[None]:
    """Run programs beside the test, with their logs in the folder."""
    begun = []
    try:
        for number, words in enumerate(commands_):
            with (folder / f"{number}.log").open("wb") as log:
                begun.append(
                    subprocess.Popen(words, env=dict(env), cwd=folder, stdout=log, stderr=log)
                )
        yield
    finally:
        for process in begun:
            process.terminate()
        for process in begun:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LEAVES_S)
            process.kill()
            process.wait()


def superexec(port: int, ca: Path, secret: Path) -> tuple[str, ...]:
    """Give the command of a stock executor."""
    return (
        str(BIN / "flower-superexec"),
        *("--runtime-api-address", f"127.0.0.1:{port}", "--root-certificates", str(ca)),
        *("--superexec-auth-secret-file", str(secret)),
    )


def stock_node(layout: Layout, key: Path, port: int) -> tuple[str, ...]:
    """Give the command of a stock SuperNode that comes to our gate."""
    doors = json.loads(layout.gate_config.read_text())["doors"]
    fleet = next(door["port"] for door in doors if door["api"] == "fleet")
    site = layout.place("local-1")
    argv = commands.supernode_argv(
        fleet=f"localhost:{fleet}",
        ca=layout.bundle,
        key=key,
        runtime_port=port,
        tls=commands.Tls(layout.bundle, site / "server.crt", site / "server.key"),
        superexec_secret=layout.secret("local-1"),
        node_config={"partition-id": 1, "num-partitions": 2},
    )
    return (str(BIN / argv[0]), *argv[1:])


@pytest.mark.timeout(240)
def test_a_stock_supernode_at_our_gate_does_every_round_once(
    make_home: MakeHome, tmp_path: Path
) -> None:
    home = make_home("mixed")
    bring_up(home, "mixed", 1)
    layout = Layout(home.path, "mixed")
    key, to_write = node_keys.prepare(tmp_path)
    for path, content in to_write.items():
        path.write_bytes(content)
        path.chmod(0o600)
    Roster(layout.roster).add("guest", key.fingerprint)
    os.kill(home.units("mixed")["hub/gate"], signal.SIGHUP)
    home.umbel("connect", str(tmp_path / "flwr"), "-n", "mixed").ok()
    env = {**home.env, **commands.quiet(tmp_path / "flwr")}
    registered = home.call("flwr", "supernode", "register", str(key.public_path), "mixed", env=env)
    registered.ok()
    port = free_range(1)
    node = stock_node(layout, tmp_path / node_keys.PRIVATE, port)
    worker = superexec(port, layout.bundle, layout.secret("local-1"))
    with running(tmp_path, env, node, worker):
        run = start_counted(home, "mixed", ROUNDS, 2)
        run.completed(timeout_s=180)
    assert_all_counted(run.log, ROUNDS, 2)
    assert [len(rounds) for rounds in run.executions().values()] == [ROUNDS]  # the other is theirs


def our_node(folder: Path, superlink: int, key: Path, port: int) -> tuple[str, ...]:
    """Give the command of our SuperNode that comes to a stock SuperLink."""
    argv = commands.supernode_argv(
        fleet=f"127.0.0.1:{superlink}",
        ca=folder / "ca.crt",
        key=key,
        runtime_port=port,
        tls=commands.Tls(folder / "ca.crt", folder / "server.pem", folder / "server.key"),
        superexec_secret=folder / "secret",
        node_config={"partition-id": 1, "num-partitions": 2},
    )
    order = json.dumps([argv, str(key.parent / "wake"), str(key.parent / "ready")])
    return (sys.executable, "-c", _OURS, order)


@pytest.mark.timeout(240)
def test_our_supernode_at_a_stock_superlink_does_every_round_once(
    tmp_path: Path, stock_side: Stock
) -> None:
    key, to_write = node_keys.prepare(tmp_path)
    for path, content in to_write.items():
        path.write_bytes(content)
        path.chmod(0o600)
    stock_side.flwr("supernode", "register", str(key.public_path), "fed", "--name", "guest")
    folder, port = stock_side.folder, free_range(1)
    node = our_node(folder, stock_side.port, tmp_path / node_keys.PRIVATE, port)
    worker = superexec(port, folder / "ca.crt", folder / "secret")
    with running(tmp_path, stock_side.env, node, worker):
        until((tmp_path / "ready").exists, "our SuperNode is connected")
        said = stock_side.run(
            APPS / "counted",
            "--stream",
            num_server_rounds=STOCK_ROUNDS,
            min_nodes=stock_side.nodes + 1,
        )
    assert_all_counted(said, STOCK_ROUNDS, stock_side.nodes + 1)
    (own,) = tmp_path.glob("executions-*.txt")
    assert own.read_text().split() == [str(n) for n in range(1, STOCK_ROUNDS + 1)]
