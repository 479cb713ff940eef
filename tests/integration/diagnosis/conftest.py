"""Homes put together by hand, with a gate that is only its doors."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from umbel.agent.processes import identify
from umbel.diagnosis.checks import judge
from umbel.diagnosis.facts import Facts, FlowerSeen
from umbel.diagnosis.finding import Finding, Severity, causes
from umbel.diagnosis.gather import gather
from umbel.files import ensure_private_folder, write_private
from umbel.identity import leaves
from umbel.identity.authority import Authority
from umbel.model.federation import Federation
from umbel.model.unit import HUB, Kind, Unit
from umbel.ports import Allotment, Kept
from umbel.store.sqlite import SqliteStore
from umbel.targets.local.layout import Layout

NAME = "local"
LOOPBACK = ("localhost", "127.0.0.1")


class FlowerAsKnown:
    """Stands for a test of Flower that found nothing; the real one has tests of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def result(self) -> FlowerSeen:
        return FlowerSeen("1.41.0", ())


def look(home: Path) -> tuple[Finding, ...]:
    """Give what `umbel doctor` would tell, but for notes about this machine."""
    found = causes(judge(gather(home, FlowerAsKnown)))
    return tuple(f for f in found if f.severity in (Severity.WARNING, Severity.PROBLEM))


@dataclass
class Gate:
    """A door with a certificate, which answers everybody alike."""

    certificate: Path
    key: Path
    status: int = 401
    port: int = 0
    _listener: socket.socket = field(default_factory=socket.socket)

    def open(self) -> None:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), plain:
                plain.settimeout(5)
                with context.wrap_socket(plain, server_side=True) as secured:
                    secured.recv(4096)
                    answer = f"HTTP/1.1 {self.status} X\r\ncontent-length: 0\r\n\r\n"
                    secured.sendall(answer.encode())


@dataclass
class Standing:
    """A home in which one federation seems to run."""

    home: Path
    gates: list[Gate] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        return Layout(self.home, NAME)

    def declare(self, **spec: Any) -> None:
        """Write the document, and the unit of a gate that this process stands for."""
        me = identify(os.getpid())
        assert me is not None
        store = SqliteStore(self.home)
        store.save_federation(Federation.model_validate({"metadata": {"name": NAME}, "spec": spec}))
        store.save_unit(Kept(Unit(NAME, HUB, Kind.GATE), me.pid, me.started))
        store.close()
        for folder in (self.layout.root, self.layout.place(HUB), self.layout.place(HUB) / "logs"):
            ensure_private_folder(folder)

    def certify(self, now: datetime | None = None, days: int = 90) -> None:
        """Make the CA and the hub's certificate."""
        moment = now or datetime.now(UTC)
        authority = Authority.create(
            self.layout.authority, NAME, now=moment - timedelta(days=1), days=3650, secret=None
        )
        leaves.ensure(authority, self.layout.place(HUB), "server", LOOPBACK, now=moment, days=days)

    def open(self, status: int = 401) -> Gate:
        """Open the control door, and write down where."""
        hub = self.layout.place(HUB)
        gate = Gate(hub / "server.crt", hub / "server.key", status)
        gate.open()
        self.gates.append(gate)
        self.tell(gate.port)
        return gate

    def tell(self, port: int) -> None:
        """Write down where the control door is."""
        door = {"api": "control", "host": "127.0.0.1", "port": port}
        write_private(self.layout.gate_config, json.dumps({"doors": [door]}))
        store = SqliteStore(self.home)
        store.save_allotment(NAME, Allotment({"control": port}))
        store.close()

    def facts(self) -> Facts:
        """Give everything that was seen."""
        return gather(self.home, FlowerAsKnown)

    def found(self) -> dict[str, Finding]:
        """Give warnings and problems by name, but for the daemon that is not there."""
        return {f.name: f for f in look(self.home)}


@pytest.fixture
def standing(tmp_path: Path) -> Iterator[Standing]:
    found = Standing(tmp_path / "umbel")
    yield found
    for gate in found.gates:
        gate.close()


@pytest.fixture
def looking() -> Callable[[Path], tuple[Finding, ...]]:
    return look
