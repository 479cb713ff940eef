"""A real federation on this machine, with a desk beside its hub and a gate that has one."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.federation.conftest import (
    APPS,
    Home,
    MakeHome,
    make_home,
    new_home,
    patient,
    until,
)

from umbel.identity import node_keys
from umbel.remote import Remote, RemoteClient

__all__ = ["APPS", "make_home", "new_home", "patient", "until"]

LAB = "lab"
USERS = ({"name": "omar", "role": "operator"}, {"name": "vic", "role": "viewer"})


@dataclass
class Process:
    """A program of ours that says a line when it is ready."""

    words: Sequence[str]
    running: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it; gives its first line."""
        self.running = subprocess.Popen(
            [sys.executable, "-m", *self.words], stdout=subprocess.PIPE, text=True
        )
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        assert line, f"{self.words} did not start"
        return line

    def kill(self) -> None:
        """End it at once."""
        assert self.running is not None
        self.running.kill()
        self.running.communicate()

    def stop(self) -> int:
        """End it in order; gives the exit status."""
        assert self.running is not None
        if self.running.poll() is None:
            self.running.terminate()
        self.running.communicate(timeout=10)
        return self.running.returncode


@dataclass
class Hub:
    """What a hub in a pod would be: SuperLink, gate, desk and executor."""

    home: Home
    folder: Path
    gate: Process
    desk: Process
    address: str = ""

    @property
    def root(self) -> Path:
        """The federation's own folder."""
        return self.home.folder(LAB)

    def remote(self, user: str = "owner") -> Remote:
        """Say how a user reaches the hub."""
        tokens = self.root / "users"
        return Remote(self.address, self.root / "ca" / "bundle.crt", tokens / f"{user}.token")

    def client(self, user: str = "owner") -> RemoteClient:
        """Speak to the hub as a user."""
        return RemoteClient(self.remote(user))

    def keys(self) -> dict[str, str]:
        """Give the public keys of the sites that this machine runs."""
        places = sorted((self.root / "sites").iterdir())
        return {place.name: node_keys.load(place).public_pem.decode() for place in places}

    def audit(self) -> list[dict[str, Any]]:
        """Read the audit log."""
        text = (self.folder / "audit.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def write_gate(hub: Home, folder: Path) -> Path:
    """Configure a gate like the hub's own, with a control door alone and a desk."""
    config = json.loads((hub.folder(LAB) / "hub" / "gate.json").read_text())
    config["doors"] = [{"api": "control", "host": "127.0.0.1", "port": 0}]
    config["audit"] = str(folder / "audit.jsonl")
    config["desk"] = str(folder / "desk" / "desk.sock")
    path = folder / "gate.json"
    path.write_text(json.dumps(config))
    return path


def write_desk(hub: Home, folder: Path, control: str) -> Path:
    """Configure a desk for the hub."""
    root = hub.folder(LAB)
    config = {
        "federation": LAB,
        "socket": str(folder / "desk" / "desk.sock"),
        "control": control,
        "ca": str(root / "ca" / "bundle.crt"),
        "tokenFile": str(root / "users" / "owner.token"),
        "roster": str(root / "hub" / "sites.json"),
        "runs": str(root / "hub" / "runs"),
        "status": str(folder / "desk" / "status.json"),
    }
    path = folder / "desk.json"
    path.write_text(json.dumps(config))
    return path


@contextlib.contextmanager
def open_hub(home: Home, folder: Path, control: str = "") -> Iterator[Hub]:
    """Have a gate and a desk; `control` is the desk's way to the SuperLink, if another."""
    gate = Process(("umbel.gate", str(write_gate(home, folder))))
    _, host, port = gate.start().split()
    address = f"{host}:{port}"
    desk = Process(("umbel.server.desk", str(write_desk(home, folder, control or address))))
    try:
        desk.start()
        yield Hub(home, folder, gate, desk, address)
        assert desk.stop() == 0
        assert gate.stop() == 0
    finally:
        desk.kill()
        gate.kill()


@pytest.fixture(scope="session")
def lab_home(make_home: MakeHome) -> Home:
    """Bring up a federation of three sites."""
    home = make_home("desk")
    groups = [{"name": "local", "sites": 3}]
    document = home.write(LAB, groups=groups, security={"users": list(USERS)})
    home.umbel("up", "-f", str(document)).ok()
    return home


@pytest.fixture(scope="session")
def hub(lab_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Give the federation with a desk."""
    with open_hub(lab_home, tmp_path_factory.mktemp("hub")) as made:
        yield made


@pytest.fixture
def hub_without_superlink(lab_home: Home, tmp_path: Path) -> Iterator[Hub]:
    """Give a hub whose desk cannot reach the SuperLink."""
    with open_hub(lab_home, tmp_path, "127.0.0.1:9") as made:
        yield made
