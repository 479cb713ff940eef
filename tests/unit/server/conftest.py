"""A desk over fakes: no socket, no Flower."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from umbel.errors import UmbelError
from umbel.flower.control import ControlRefused
from umbel.identity import node_keys
from umbel.identity.node_keys import NodeKey
from umbel.model.event import Event, to_line
from umbel.model.status import NodeSeen, RunStatus
from umbel.server.desk.api import DeskApi
from umbel.server.desk.config import DeskConfig

FEDERATION = "lab"


class FakeLink:
    """A SuperLink that remembers keys for ever, as the real one does."""

    def __init__(self) -> None:
        self.registered: dict[str, NodeSeen] = {}  # by fingerprint
        self.spent: set[str] = set()
        self.listed: list[RunStatus] = []
        self.submitted: list[tuple[str, dict[str, Any]]] = []
        self.trouble: UmbelError | None = None
        self.calls: list[str] = []

    def _answer(self, what: str) -> None:
        self.calls.append(what)
        if self.trouble is not None:
            raise self.trouble

    async def nodes(self, federation: str) -> Sequence[NodeSeen]:
        assert federation == FEDERATION
        self._answer("nodes")
        return list(self.registered.values())

    async def look(self, federation: str) -> tuple[Sequence[NodeSeen], Sequence[RunStatus]]:
        return await self.nodes(federation), await self.runs(federation)

    async def runs(self, federation: str) -> Sequence[RunStatus]:
        assert federation == FEDERATION
        self._answer("runs")
        return list(self.listed)

    async def start(self, federation: str, app: Path, config: Mapping[str, Any]) -> RunStatus:
        raise AssertionError((federation, app, config))

    async def submit(self, fab: str, config: Mapping[str, Any]) -> RunStatus:
        self._answer("submit")
        self.submitted.append((fab, dict(config)))
        return RunStatus("77", "me/app==1", "pending")

    async def stop(self, federation: str, run_id: str) -> bool:
        assert federation == FEDERATION
        self._answer("stop")
        self.listed = [
            replace(r, status="stopped") if r.run_id == run_id else r for r in self.listed
        ]
        return True

    async def enrol(self, keys: Mapping[str, NodeKey]) -> Mapping[str, int]:
        self._answer(f"enrol {len(keys)}")
        for key in keys.values():
            if key.fingerprint in self.spent or key.fingerprint in self.registered:
                raise ControlRefused("RegisterNode", "Public key already in use. (answer 412)")
        for name, key in keys.items():
            number = len(self.registered) + len(self.spent) + 1
            self.registered[key.fingerprint] = NodeSeen(number, name, "registered", key.fingerprint)
        return {name: self.registered[key.fingerprint].node_id for name, key in keys.items()}

    async def enrol_each(
        self, keys: Mapping[str, NodeKey]
    ) -> tuple[Mapping[str, int], Mapping[str, str]]:
        ids: dict[str, int] = {}
        refused: dict[str, str] = {}
        for name, key in keys.items():
            try:
                ids |= await self.enrol({name: key})
            except ControlRefused as error:
                refused[name] = error.fact
        return ids, refused

    async def expel(self, fingerprints: Sequence[str]) -> Sequence[str]:
        self._answer(f"expel {len(fingerprints)}")
        gone = [self.registered.pop(of) for of in fingerprints if of in self.registered]
        self.spent |= {node.fingerprint for node in gone}
        return [node.name for node in gone]


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def config(tmp_path: Path) -> DeskConfig:
    (tmp_path / "runs").mkdir()
    return DeskConfig(
        federation=FEDERATION,
        socket=tmp_path / "desk.sock",
        control="127.0.0.1:9093",
        ca=tmp_path / "ca.crt",
        token_file=tmp_path / "token",
        roster=tmp_path / "roster" / "sites.json",
        runs=tmp_path / "runs",
        status=tmp_path / "status.json",
    )


@pytest.fixture
async def ask(config: DeskConfig, link: FakeLink) -> AsyncIterator[httpx.AsyncClient]:
    """Ask the desk as an admin whom the gate let in."""
    transport = httpx.ASGITransport(DeskApi(config, link).app())
    headers = {"umbel-user": "ada", "umbel-role": "admin"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://desk", headers=headers
    ) as client:
        yield client


MakeKey = Callable[[str], str]


@pytest.fixture
def public(tmp_path: Path) -> MakeKey:
    """Give the public key of a site, always the same one for a name."""

    def make(name: str) -> str:
        return node_keys.ensure(tmp_path / "keys" / name).public_pem.decode()

    return make


@pytest.fixture
def leave(config: DeskConfig) -> Callable[..., None]:
    """Write a run's file, or its events, as the hub's executor does."""

    def write(run_id: str, name: str, *content: Event | str) -> None:
        path = config.runs / run_id / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            for item in content:
                file.write(item if isinstance(item, str) else to_line(item) + "\n")

    return write
