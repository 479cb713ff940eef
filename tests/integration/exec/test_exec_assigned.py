"""One SuperNode, two executors as they are in pods of their own, two apps at the same time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
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

pytestmark = pytest.mark.long

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


@pytest.fixture(scope="module")
def hub(make_home: MakeHome) -> Home:
    home = make_home("assigned")
    bring_up(home, "assigned", 1)
    return home


@dataclass(frozen=True)
class Site:
    """A further site of the federation: its SuperNode, and pods below a folder."""

    home: Home
    folder: Path
    tls: alone.Alone
    port: int

    @property
    def env(self) -> dict[str, str]:
        return {**self.home.env, **commands.quiet(self.folder / "flwr")}

    def enrol(self) -> Path:
        """Let the site in; gives its key."""
        layout = Layout(self.home.path, "assigned")
        key, to_write = node_keys.prepare(self.folder)
        for path, content in to_write.items():
            path.write_bytes(content)
            path.chmod(0o600)
        Roster(layout.roster).add(self.folder.name, key.fingerprint)
        os.kill(self.home.units("assigned")["hub/gate"], signal.SIGHUP)
        self.home.umbel("connect", str(self.folder / "flwr"), "-n", "assigned").ok()
        words = ("supernode", "register", str(key.public_path), "assigned")
        self.home.call("flwr", *words, env=self.env).ok()
        return self.folder / node_keys.PRIVATE

    def supernode(self) -> tuple[str, ...]:
        """Give the command of a SuperNode that has environments."""
        layout = Layout(self.home.path, "assigned")
        doors = json.loads(layout.gate_config.read_text())["doors"]
        fleet = next(door["port"] for door in doors if door["api"] == "fleet")
        argv = commands.supernode_argv(
            fleet=f"localhost:{fleet}",
            ca=layout.bundle,
            key=self.enrol(),
            runtime_port=self.port,
            tls=commands.Tls(self.tls.ca, self.tls.certificate, self.tls.key),
            superexec_secret=self.folder / "own.secret",
            node_config={"partition-id": 1, "num-partitions": 2},
        )
        files = (str(self.folder / "wake"), str(self.folder / "ready"))
        return (sys.executable, "-c", _NODE, json.dumps([argv, *files, MASTER.hex(), APPS]))

    def stock_executor(self) -> tuple[str, ...]:
        """Give the command of Flower's own executor, which knows nothing of environments."""
        return superexec(self.port, self.tls.ca, self.folder / "own.secret")

    def executor(self, pod: str, name: str) -> tuple[str, ...]:
        """Lay a pod of this environment out; gives the command of its container."""
        places = self.pod(pod)
        told: dict[str, Any] = {
            "site": name, "environment": name, "address": f"localhost:{self.port}", "warm": True,
            "poll_s": 300.0, "task_timeout_s": 600.0, "per_task": {}, "has": {}, "wheels": None,
        }  # fmt: skip
        for path in (CONFIG, RUNTIME, "/tmp"):  # below the folder
            places.at(path).mkdir(parents=True)
        (places.at(CONFIG) / "app.json").write_text(json.dumps(told))
        (places.at(RUNTIME) / "ca.crt").write_bytes(self.tls.ca.read_bytes())
        (places.at(RUNTIME) / "exec.secret").write_bytes(secret_of(MASTER, name))
        root = f"UMBEL_POD_ROOT={places.root}"
        return ("/usr/bin/env", root, sys.executable, "-m", "umbel.agent.pod.roles", "app")

    def pod(self, pod: str) -> Places:
        return Places(self.folder / f"pod-{pod}")

    def served(self, pod: str) -> set[str]:
        """Say which runs an executor has worked for."""
        at = self.pod(pod).scratch / "runs"
        return {found.name for found in at.iterdir()} if at.is_dir() else set()

    def until_there(self, *pods: str) -> None:
        until((self.folder / "ready").exists, "the SuperNode is connected")
        for pod in pods:
            until(self.pod(pod).reached.exists, f"{pod} reaches it")


@pytest.fixture
def site(hub: Home, tmp_path: Path) -> Site:
    (tmp_path / "own.secret").write_bytes(b"o" * 32)
    tls = alone.ensure(tmp_path, "runtime", ["localhost", "127.0.0.1"], now=datetime.now(UTC))
    return Site(hub, tmp_path, tls, free_range(1))


@pytest.mark.timeout(240)
def test_each_executor_gets_the_tasks_of_its_own_app(
    hub: Home, site: Site, make_app: MakeApp
) -> None:
    pods = [site.executor(name, name) for name in APPS]
    with running(site.folder, site.env, site.supernode(), *pods, site.stock_executor()):
        site.until_there(*APPS)
        ids = {n: hub.submit(make_app(n), *TWO_ROUNDS, name="assigned") for n in (*APPS, "other")}
        for run_id in ids.values():
            assert hub.until_over(run_id, "assigned")["status"] == "completed"
    assert {name: site.served(name) for name in APPS} == {name: {ids[name]} for name in APPS}


WAITS = """\
import pathlib, threading
pathlib.Path({here!r}, f"begun-{{context.node_config['partition-id']}}").touch()
while not pathlib.Path({here!r}, "go").exists():
    threading.Event().wait(0.02)
"""


@pytest.mark.timeout(240)
def test_an_executor_that_is_replaced_finishes_its_task(
    hub: Home, site: Site, make_app: MakeApp
) -> None:
    pods = ("old", "new")
    commands_ = {pod: site.executor(pod, "vision") for pod in pods}
    app = make_app("vision", WAITS.format(here=str(site.folder)))
    with running(site.folder, site.env, site.supernode()):
        begun = {
            pod: subprocess.Popen(words, env=site.env, cwd=site.folder)
            for pod, words in commands_.items()
        }
        try:
            site.until_there(*pods)
            run_id = hub.submit(app, *TWO_ROUNDS, name="assigned")
            until((site.folder / "begun-1").exists, "a task at work")
            (at_work,) = [pod for pod in pods if site.served(pod)]
            begun[at_work].terminate()
            with pytest.raises(subprocess.TimeoutExpired):
                begun[at_work].wait(1)
            (site.folder / "go").touch()
            assert begun[at_work].wait(30) == 0
            assert hub.until_over(run_id, "assigned")["status"] == "completed"
        finally:
            for process in begun.values():
                process.terminate()
                process.wait(30)
    (other,) = set(pods) - {at_work}
    assert site.served(other) == {run_id}
    logs = [(site.pod(pod).scratch / "runs" / run_id / "log.txt").read_text() for pod in pods]
    assert not any("Traceback" in log for log in logs)
