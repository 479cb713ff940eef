from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from umbel.flower.control import ControlRefused, ControlUnreachable
from umbel.identity.node_keys import fingerprint
from umbel.identity.roster import Roster
from umbel.server.desk.config import DeskConfig

if TYPE_CHECKING:
    from tests.unit.server.conftest import FakeLink, MakeKey

SITES = "/v1/federations/lab/sites"


async def put(ask: httpx.AsyncClient, sites: dict[str, str]) -> dict[str, Any]:
    answer = await ask.put(SITES, json={"sites": sites})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def roster(config: DeskConfig) -> dict[str, str]:
    return Roster(config.roster).sites()


async def test_sites_are_let_in_at_gate_and_superlink(
    ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink, public: MakeKey
) -> None:
    told = await put(ask, {"north": public("north"), "south": public("south")})
    assert told == {
        "nodes": {"north": 1, "south": 2},
        "admitted": ["north", "south"],
        "expelled": [],
        "refused": {},
    }
    assert roster(config) == {n: fingerprint(public(n).encode()) for n in ("north", "south")}
    assert link.calls == ["nodes", "enrol 2"]


async def test_the_same_order_again_changes_nothing_and_asks_once(
    ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink, public: MakeKey
) -> None:
    sites = {"north": public("north"), "south": public("south")}
    first = await put(ask, sites)
    before = config.roster.stat()
    link.calls.clear()
    again = await put(ask, sites)
    assert again == {**first, "admitted": []}
    assert link.calls == ["nodes"]
    after = config.roster.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_who_is_not_named_is_expelled(
    ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink, public: MakeKey
) -> None:
    await put(ask, {"north": public("north"), "south": public("south")})
    told = await put(ask, {"north": public("north")})
    assert (told["admitted"], told["expelled"]) == ([], ["south"])
    assert list(roster(config)) == ["north"]
    assert [node.name for node in link.registered.values()] == ["north"]


async def test_nobody_named_is_everybody_out(
    ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink, public: MakeKey
) -> None:
    await put(ask, {"north": public("north")})
    assert (await put(ask, {}))["expelled"] == ["north"]
    assert roster(config) == {}
    assert link.registered == {}


async def test_a_new_key_takes_the_place_of_the_old_one(
    ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink, public: MakeKey
) -> None:
    await put(ask, {"north": public("north")})
    told = await put(ask, {"north": public("renewed")})
    assert (told["admitted"], told["expelled"]) == (["north"], ["north"])
    new = fingerprint(public("renewed").encode())
    assert roster(config) == {"north": new}
    assert list(link.registered) == [new]


async def test_a_key_that_was_expelled_once_stays_out_and_blocks_no_other(
    ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink, public: MakeKey
) -> None:
    names = [f"s{number}" for number in range(9)]
    everybody = {name: public(name) for name in names}
    await put(ask, {"s3": everybody["s3"]})
    await put(ask, {})
    told = await put(ask, everybody)
    assert list(told["refused"]) == ["s3"]
    assert "already in use" in told["refused"]["s3"]
    assert sorted(told["nodes"]) == [name for name in names if name != "s3"]
    assert sorted(roster(config)) == sorted(told["nodes"])
    link.calls.clear()
    assert await put(ask, everybody) == {**told, "admitted": []}
    assert link.calls == ["nodes"]  # what the SuperLink never takes is not offered again


@pytest.mark.parametrize("owner_first", [True, False])
async def test_a_key_that_two_claim_stays_with_who_had_it(
    ask: httpx.AsyncClient, config: DeskConfig, public: MakeKey, *, owner_first: bool
) -> None:
    await put(ask, {"north": public("north")})
    claims = {"north": public("north"), "thief": public("north")}
    told = await put(ask, claims if owner_first else dict(reversed(claims.items())))
    assert list(told["nodes"]) == ["north"]
    assert "belongs to site 'north'" in told["refused"]["thief"]
    assert list(roster(config)) == ["north"]


async def test_who_claimed_anothers_key_comes_back_with_its_own(
    ask: httpx.AsyncClient, config: DeskConfig, public: MakeKey
) -> None:
    honest = {"north": public("north"), "south": public("south")}
    first = await put(ask, honest)
    told = await put(ask, {"north": public("north"), "south": public("north")})
    assert list(told["refused"]) == ["south"]
    assert list(roster(config)) == ["north"]
    again = await put(ask, honest)
    assert (again["nodes"], again["refused"]) == (first["nodes"], {})


async def test_a_key_that_two_claim_at_once_is_nobodys(
    ask: httpx.AsyncClient, link: FakeLink, public: MakeKey
) -> None:
    claims = {"a": public("same"), "b": public("same"), "c": public("c")}
    told = await put(ask, claims)
    assert (list(told["nodes"]), sorted(told["refused"])) == (["c"], ["a", "b"])
    assert len(link.registered) == 1


async def test_what_is_no_usable_key_is_refused_alone(
    ask: httpx.AsyncClient, public: MakeKey
) -> None:
    other = ed25519.Ed25519PrivateKey.generate().public_key()
    pem = other.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()
    told = await put(
        ask, {"good": public("good"), "curve": pem, "text": "hello", "../up": public("up")}
    )
    assert list(told["nodes"]) == ["good"]
    assert sorted(told["refused"]) == ["../up", "curve", "text"]


async def test_a_key_is_the_same_however_it_is_written(
    ask: httpx.AsyncClient, link: FakeLink, public: MakeKey
) -> None:
    await put(ask, {"north": public("north")})
    told = await put(ask, {"north": "\n" + public("north").replace("\n", "\r\n").rstrip()})
    assert (told["admitted"], told["expelled"], told["refused"]) == ([], [], {})
    assert len(link.registered) == 1


async def test_who_must_leave_is_out_at_once_even_if_the_superlink_is_away(
    ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink, public: MakeKey
) -> None:
    await put(ask, {"north": public("north"), "south": public("south")})
    link.trouble = ControlUnreachable("127.0.0.1:9093", "answer 503")
    answer = await ask.put(SITES, json={"sites": {"north": public("north"), "new": public("new")}})
    assert (answer.status_code, answer.json()["code"]) == (503, "U213")
    assert list(roster(config)) == ["north"]  # and nobody new, whom the SuperLink does not know
    link.trouble = None
    told = await put(ask, {"north": public("north"), "new": public("new")})
    assert (told["admitted"], told["expelled"]) == (["new"], ["south"])


async def test_a_desk_that_is_not_let_in_blames_no_site(
    ask: httpx.AsyncClient, link: FakeLink, public: MakeKey
) -> None:
    link.trouble = ControlRefused("RegisterNode", "refused (answer 401)")
    answer = await ask.put(SITES, json={"sites": {"north": public("north")}})
    assert (answer.status_code, answer.json()["code"]) == (404, "U310")


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"{}", b'{"sites": []}', b'{"sites": {"a": 1}}', b'{"sites": {}, "x": 1}'],
)
async def test_an_order_of_another_form_changes_nothing(
    body: bytes, ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink
) -> None:
    answer = await ask.put(SITES, content=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "U355")
    assert link.calls == []
    assert not config.roster.exists()


async def test_the_gate_can_read_the_list(
    ask: httpx.AsyncClient, config: DeskConfig, public: MakeKey
) -> None:
    await put(ask, {"north": public("north")})
    assert json.loads(config.roster.read_bytes()) == {
        fingerprint(public("north").encode()): {"site": "north"}
    }
    assert config.roster.stat().st_mode & 0o777 == 0o600
