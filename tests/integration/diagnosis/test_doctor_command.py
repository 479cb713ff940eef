"""The command itself, on a real federation."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from umbel.diagnosis.facts import KeeperState
from umbel.diagnosis.gather import keepers

LONGEST_S = 100.0


@dataclass
class Command:
    """Runs `umbel` with a home of its own."""

    home: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "UMBEL_HOME": str(self.home)}
        return subprocess.run(
            [sys.executable, "-m", "umbel.cli.main", *words],
            env=env,
            cwd=self.home.parent,
            check=False,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )

    def findings(self) -> tuple[int, list[dict[str, Any]]]:
        said = self.run("doctor", "-o", "json")
        assert "Traceback" not in said.stderr
        return said.returncode, json.loads(said.stdout)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    made = Command(tmp_path_factory.mktemp("doctor") / "umbel")
    document = made.home.parent / "one.yaml"
    head = {"apiVersion": "umbel.dev/v1alpha1", "kind": "Federation", "metadata": {"name": "one"}}
    spec = {"groups": [{"name": "only", "sites": 1}]}
    document.write_text(yaml.safe_dump({**head, "spec": spec}))
    said = made.run("up", "-f", str(document))
    assert said.returncode == 0, said.stderr
    yield made
    made.run("down")


def test_a_running_federation_is_found_well(command: Command) -> None:
    code, found = command.findings()
    assert [f for f in found if f["severity"] in ("warning", "problem")] == []
    assert code == 0
    doors = {f["about"]: f["severity"] for f in found if f["name"] == "Door"}
    assert doors == dict.fromkeys(("one/fleet", "one/control", "one/runtime"), "ok")
    assert set(found[0]) == {"name", "severity", "fact", "hint", "about"}


def test_people_get_a_table_the_sum_and_a_failure(command: Command) -> None:
    token = command.home / "federations" / "one" / "users" / "owner.token"
    token.chmod(0o644)
    try:
        said = command.run("doctor")
    finally:
        token.chmod(0o600)
    assert said.returncode == 1
    assert said.stdout.splitlines()[1].split()[:2] == ["problem", "PrivateFilesOpen"]
    assert f"chmod600{token}" in "".join(said.stdout.split())  # lines are folded to the width
    assert said.stderr.strip() == "1 problem"


def test_a_killed_daemon_is_named_as_the_cause_and_status_starts_it_again(
    command: Command,
) -> None:
    pids = [look(command.home).pid for look in (keepers.daemon, keepers.nursery)]
    assert all(pids)
    fds = [os.pidfd_open(pid) for pid in pids]
    for pid in pids:  # both at once, or one would start the other again
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for fd in fds:
        select.select([fd], [], [], LONGEST_S)
        os.close(fd)
    code, found = command.findings()
    assert [f["name"] for f in found if f["severity"] != "ok"][:1] == ["DaemonGone"]
    assert code == 1
    command.run("status")
    assert keepers.daemon(command.home).state is KeeperState.ALIVE


def test_where_nothing_was_started_the_command_is_content(tmp_path: Path) -> None:
    said = Command(tmp_path / "none").run("doctor", "-o", "yaml")
    assert said.returncode == 0
    assert {f["severity"] for f in yaml.safe_load(said.stdout)} <= {"ok", "note"}
    assert list(tmp_path.iterdir()) == []
