from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.desk.conftest import LAB, until

from umbel.errors import Relayed
from umbel.gate.refusals import HubUnreachable, HubUntrusted, TokenRefused
from umbel.identity import alone, node_keys
from umbel.identity.roster import Roster
from umbel.model.status import Condition, FederationStatus, Rounds
from umbel.targets.ocm.desk import AuthorityUnusable, DeskClient

if TYPE_CHECKING:
    from tests.integration.desk.conftest import Hub
    from tests.integration.federation.conftest import Home

STATUS = FederationStatus(
    name=LAB,
    phase="Degraded",
    endpoint={"fleet": "fl.example.org:9092", "control": "fl.example.org:9093"},
    versions={},
    conditions=(Condition("Ready", "False", "SiteAway", "north is away"),),
    sites=(),
    certificates=(),
    runs=None,
)


def open_desk(hub: Hub) -> DeskClient:
    """Speak to the desk as the operator does."""
    remote = hub.remote()
    return DeskClient(remote.address, remote.ca.read_bytes(), remote.token())


def new_key(folder: Path) -> str:
    return node_keys.make(folder).public_pem.decode()


async def test_sites_put_twice_are_the_same(hub: Hub) -> None:
    keys = hub.keys()
    wanted = {name: keys[name] for name in ("local-1", "local-2")}
    async with open_desk(hub) as desk:
        first = await desk.put_sites(wanted)
        again = await desk.put_sites(wanted)
        assert first.nodes == again.nodes
        assert (again.admitted, again.expelled, again.refused) == ([], [], {})
        seen = {node.name: node.node_id for node in await desk.nodes()}
        assert seen == first.nodes
    assert sorted(Roster(hub.root / "hub" / "sites.json").sites()) == ["local-1", "local-2"]


async def test_a_site_is_let_in_and_put_out_for_ever(hub: Hub, tmp_path: Path) -> None:
    keys = hub.keys()
    stay = {name: keys[name] for name in ("local-1", "local-2")}
    more = {f"far-{n}": new_key(tmp_path / str(n)) for n in range(5)}
    async with open_desk(hub) as desk:
        await desk.put_sites(stay)
        told = await desk.put_sites(stay | more)
        assert list(told.admitted) == list(more)
        assert (await desk.put_sites(stay)).expelled == sorted(more)
        fresh = {"far-9": new_key(tmp_path / "9")}
        back = await desk.put_sites(stay | more | fresh)
        assert sorted(back.refused) == sorted(more)
        assert list(back.admitted) == ["far-9"]
        told = await desk.put_sites(stay | {"far-9": new_key(tmp_path / "renewed")})
        assert (list(told.admitted), list(told.expelled)) == (["far-9"], ["far-9"])
        await desk.put_sites(stay)


async def test_a_supernode_that_is_expelled_is_refused_at_the_gate(hub: Hub) -> None:
    keys = hub.keys()
    async with open_desk(hub) as desk:
        told = await desk.put_sites({name: keys[name] for name in ("local-1", "local-2")})
        names = {node.name: node.status for node in await desk.nodes()}
    assert "local-3" not in told.nodes
    assert "local-3" not in names
    if pid := hub.home.units(LAB).get("local-3/supernode"):
        hub.home.kill(pid)  # so that its next call comes sooner
    log = hub.root / "hub" / "audit.jsonl"
    until(lambda: "unknown site key" in log.read_text(), "the gate has refused it")


async def test_a_report_is_kept_and_given(hub: Hub, new_home: Home) -> None:
    async with open_desk(hub) as desk:
        await desk.put_status(STATUS)
        with pytest.raises(Relayed, match="U355"):
            await desk.put_status(replace(STATUS, name="other"))
        assert await desk.rounds(wait_s=5) == Rounds(active_runs=0, in_round=False)
        assert all(run.run_id for run in await desk.runs())
    found = hub.client("vic").status(LAB)
    assert (found["phase"], found["conditions"][0]["reason"]) == ("Degraded", "SiteAway")
    assert found["runs"] is not None
    hub.desk.kill()
    hub.desk.start()
    assert hub.client("vic").status(LAB)["as_of"] == found["as_of"]
    remote = hub.remote("vic")
    words = ("--ca", str(remote.ca), "--token-file", str(remote.token_file))
    new_home.umbel("connect", "far", "--address", remote.address, *words).ok()
    said = new_home.umbel("status")
    assert said.code == 1
    assert "s ago" in said.out
    assert "north is away" in said.out


async def test_the_operators_errors_are_told_by_kind(hub: Hub, tmp_path: Path) -> None:
    remote = hub.remote()
    ca, token = remote.ca.read_bytes(), remote.token()
    with pytest.raises(AuthorityUnusable):
        DeskClient(hub.address, b"none", token)
    async with DeskClient(hub.address, ca, "umbel_wrong") as stranger:
        with pytest.raises(TokenRefused):
            await stranger.nodes()
    async with DeskClient("127.0.0.1:9", ca, token) as nowhere:
        with pytest.raises(HubUnreachable):
            await nowhere.nodes()
    async with DeskClient(hub.address, _other_authority(tmp_path), token) as deceived:
        with pytest.raises(HubUntrusted):
            await deceived.nodes()


def _other_authority(folder: Path) -> bytes:
    return alone.ensure(folder, "other", ["127.0.0.1"], now=datetime.now(UTC)).ca.read_bytes()


async def test_without_a_superlink_the_desk_says_so_and_lives(hub_without_superlink: Hub) -> None:
    hub = hub_without_superlink
    async with open_desk(hub) as desk:
        for ask in (desk.nodes, desk.runs, desk.rounds):
            with pytest.raises(Relayed, match="U213"):
                await ask()
        await desk.put_status(STATUS)
    client = hub.client("vic")
    assert (client.status(LAB)["phase"], client.status(LAB)["runs"]) == ("Degraded", None)
    assert hub.desk.running is not None
    assert hub.desk.running.poll() is None
