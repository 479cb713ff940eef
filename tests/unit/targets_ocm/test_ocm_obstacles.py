"""What stands in a federation's way is named, and what is only to be known does not stop it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.model.federation import Federation
from umbel.model.status import Condition
from umbel.targets.ocm.names import FEDERATION, Names
from umbel.targets.ocm.obstacles import Obstacles
from umbel.targets.ocm.settings import OcmSettings
from umbel.targets.ocm.watching import watched

NAMES = Names("fl", "lab")
MINE = {"labels": {FEDERATION: NAMES.addon}}
GATEWAY = {
    "type": "Gateway",
    "fleetHost": "fleet.example.org",
    "controlHost": "people.example.org",
    "gateway": "edge",
    "gatewayNamespace": "infra",
}


@pytest.fixture
def api() -> FakeApi:
    made = FakeApi()
    made.put(kinds.CLUSTER_SET, "global")
    made.put(kinds.BINDING, "global", "fl")
    return made


@pytest.fixture
async def cache(api: FakeApi) -> AsyncIterator[Cache]:
    made = Cache(api.kube(), watched(), lambda *_: None)
    watching = asyncio.create_task(made.run())
    yield made
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def document(service: dict[str, Any] | None = None, **asked: int) -> Federation:
    groups = [
        {"name": name, "on": "ocm", "placement": {"numberOfClusters": number} if number else {}}
        for name, number in (asked or {"all": 0}).items()
    ]
    link = {"on": "ocm", **({"kubernetes": {"service": service}} if service else {})}
    spec = {"superlink": link, "groups": groups}
    return Federation.model_validate({"metadata": {"name": "lab"}, "spec": spec})


def place(api: FakeApi, group: str, chosen: int, message: str = "") -> None:
    """Have a placement that chose so many clusters."""
    satisfied = {
        "type": "PlacementSatisfied",
        "status": "False" if message else "True",
        "message": message,
    }
    status = {"numberOfSelectedClusters": chosen, "conditions": [satisfied]}
    api.put(kinds.PLACEMENT, NAMES.placement(group), "fl", metadata=MINE, status=status)


def route(api: FakeApi, name: str, *said: dict[str, str]) -> None:
    """Have a way in of which a gateway said this; nothing, if none took it."""
    status = {"parents": [{"conditions": list(said)}]} if said else {}
    api.put(kinds.TLS_ROUTE, name, "fl", metadata=MINE, status=status)


async def found(api: FakeApi, cache: Cache, wanted: Federation) -> list[Condition]:
    await cache.filled()
    obstacles = Obstacles(api.kube(), cache, NAMES, OcmSettings())
    await obstacles.look(wanted)
    return obstacles.found


async def test_as_many_clusters_as_asked_are_nothing_to_speak_of(
    api: FakeApi, cache: Cache
) -> None:
    place(api, "all", 2)
    assert await found(api, cache, document(all=2)) == []
    assert await found(api, cache, document()) == []


async def test_fewer_clusters_than_asked_are_told_and_stop_nothing(
    api: FakeApi, cache: Cache
) -> None:
    place(api, "all", 2, "1 cluster decisions unscheduled")
    (said,) = await found(api, cache, document(all=3))
    assert (said.type, said.status, said.reason) == ("ClustersChosen", "True", "FewerThanAsked")
    assert "group all: 2 of 3 clusters" in said.message
    assert "--show-labels" in said.hint


async def test_before_ocm_decided_nothing_is_missed(api: FakeApi, cache: Cache) -> None:
    api.put(kinds.PLACEMENT, NAMES.placement("all"), "fl", metadata=MINE)
    assert await found(api, cache, document(all=3)) == []


async def test_a_group_without_clusters_is_named_before_one_with_fewer(
    api: FakeApi, cache: Cache
) -> None:
    place(api, "eu", 1, "1 cluster decisions unscheduled")
    place(api, "us", 0, "no cluster matched")
    said = await found(api, cache, document(eu=2, us=2))
    assert [c.reason for c in said] == ["NothingMatches", "FewerThanAsked"]


async def test_a_route_that_no_gateway_took_is_waited_for(api: FakeApi, cache: Cache) -> None:
    route(api, "lab-fleet")
    (said,) = await found(api, cache, document(GATEWAY))
    assert (said.type, said.status, said.reason) == ("EndpointKnown", "True", "RoutePending")
    assert "TLSRoute lab-fleet waits for gateway infra/edge" in said.message
    assert "Passthrough" in said.hint


async def test_a_route_that_its_gateway_refuses_is_named_first(api: FakeApi, cache: Cache) -> None:
    route(api, "lab-control")
    no = {"type": "Accepted", "status": "False", "message": "not allowed by the listener"}
    route(api, "lab-fleet", no)
    said = await found(api, cache, document(GATEWAY))
    assert [(c.status, c.reason) for c in said] == [
        ("False", "RouteRefused"),
        ("True", "RoutePending"),
    ]
    assert said[0].message == "TLSRoute lab-fleet: not allowed by the listener"


async def test_a_route_that_its_gateway_took_is_nothing_to_speak_of(
    api: FakeApi, cache: Cache
) -> None:
    route(api, "lab-fleet", {"type": "Accepted", "status": "True"})
    assert await found(api, cache, document(GATEWAY)) == []
    route(api, "lab-fleet")
    assert await found(api, cache, document()) == []  # a former declaration's
