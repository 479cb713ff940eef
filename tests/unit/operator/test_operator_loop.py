"""The whole operator against an API server in memory: everything but the hub's own programs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi

from umbel.kube import kinds
from umbel.kube.client import Limiter
from umbel.kube.kinds import Object
from umbel.operator import loop as loops
from umbel.operator import tenant as tenants
from umbel.operator.loop import Loop
from umbel.targets.ocm import deciding
from umbel.targets.ocm.choosing import PLACEMENT
from umbel.targets.ocm.names import FINALIZER, Names
from umbel.targets.ocm.settings import OcmSettings

NAMES = Names("fl", "lab")
SPEC = {"superlink": {"on": "ocm"}, "groups": [{"name": "all", "on": "ocm"}]}


@pytest.fixture
def api() -> FakeApi:
    found = FakeApi()
    found.put(kinds.CLUSTER_SET, "global")
    return found


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "SETTLE_S", 0.0)
    monkeypatch.setattr(deciding, "QUIET_S", 0.0)
    monkeypatch.setattr(deciding, "LONGEST_S", 0.0)
    monkeypatch.setattr(tenants, "AGAIN_S", 3600.0)
    monkeypatch.setattr(tenants, "LOOK_S", 3600.0)
    monkeypatch.setattr(tenants, "TELL_S", 0.0)
    monkeypatch.setattr(tenants, "TELL_SITE_S", 0.0)


@asynccontextmanager
async def operator(api: FakeApi) -> AsyncIterator[Loop]:
    kube = api.kube(limiter=Limiter(1e6, 1e6))
    found = Loop(kube, OcmSettings(bind=frozenset({"*"})), "test")
    running = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def declare(api: FakeApi, name: str = "lab", namespace: str = "fl", **meta: Any) -> Object:
    return api.put(kinds.FEDERATION, name, namespace, spec=SPEC, metadata=meta)


def decide(api: FakeApi, *clusters: str, names: Names = NAMES) -> None:
    placement = names.placement("all")
    chosen = [{"clusterName": cluster} for cluster in clusters]
    api.put(
        kinds.DECISION,
        f"{placement}-1",
        names.namespace,
        metadata={"labels": {PLACEMENT: placement}},
        status={"decisions": chosen},
    )


def status(api: FakeApi, names: Names = NAMES) -> Object:
    found = api.get(kinds.FEDERATION, names.name, names.namespace) or {}
    told: Object = found.get("status") or {}
    return told


def installed(api: FakeApi, names: Names = NAMES) -> set[str]:
    return {ns for kind, ns, name in api.objects if kind is kinds.INSTALLED and name == names.addon}


async def test_a_federation_gets_its_hub_and_what_sites_will_run(api: FakeApi) -> None:
    declare(api)
    async with operator(api):
        await api.until(lambda: status(api))
    for kind, name in (
        (kinds.STATEFUL_SET, "lab-hub"),
        (kinds.SERVICE, "lab"),
        (kinds.PLACEMENT, "lab-all"),
        (kinds.SECRET, "lab-gate"),
        (kinds.BINDING, "global"),
    ):
        assert api.get(kind, name, "fl") is not None, name
    assert api.get(kinds.ADDON, NAMES.addon) is not None
    assert api.get(kinds.SECRET, NAMES.authority_secret, "umbel-system") is not None
    held = api.get(kinds.FEDERATION, "lab", "fl")
    assert held is not None
    assert held["metadata"]["finalizers"] == [FINALIZER]


async def test_a_chosen_cluster_gets_two_objects_and_one_that_is_not_any_more_loses_them(
    api: FakeApi,
) -> None:
    declare(api)
    async with operator(api) as found:
        await api.until(lambda: status(api))
        before = dict(found._kube.written)
        decide(api, "c1", "c2")
        await api.until(lambda: installed(api) == {"c1", "c2"})
        await api.until(lambda: status(api).get("sitesWanted") == 2)
        written = found._kube.written - type(found._kube.written)(before)
        assert written["AddOnDeploymentConfig"] == 2
        assert written["ManagedClusterAddOn"] == 2
        decide(api, "c2")
        await api.until(lambda: installed(api) == {"c2"})


async def test_a_federation_at_rest_is_not_written_again(api: FakeApi) -> None:
    declare(api)
    async with operator(api) as found:
        await api.until(lambda: status(api))
        decide(api, "c1")
        await api.until(lambda: status(api).get("sitesWanted") == 1)
        looks, writes = found.looks, found._kube.writes
        for number in range(3):
            declare(api, finalizers=[FINALIZER], annotations={"touched": str(number)})
            await api.until(partial(_looked, found, looks + number + 1))
        assert found._kube.writes == writes


def _looked(found: Loop, times: int) -> bool:
    return found.looks >= times and not found._busy


async def test_our_own_status_wakes_nobody(api: FakeApi) -> None:
    declare(api)
    async with operator(api) as found:
        await api.until(lambda: status(api))
        await api.until(partial(_quiet, found))
        looks = found.looks
        held = api.get(kinds.FEDERATION, "lab", "fl")
        assert held is not None
        kept = {key: held["metadata"][key] for key in ("finalizers", "name", "namespace")}
        api.put(kinds.FEDERATION, "lab", "fl", spec=SPEC, metadata=kept, status={"phase": "Odd"})
        version = api.put(kinds.CLUSTER_SET, "later")["metadata"]["resourceVersion"]
        await api.until(lambda: _seen(found) >= int(version) - 1)
        assert found._due.keys() <= {NAMES.addon}
        assert found._due[NAMES.addon] > time.monotonic() + 60
        assert found.looks == looks


def _quiet(found: Loop) -> bool:
    return not found._busy and all(due > time.monotonic() + 60 for due in found._due.values())


def _seen(found: Loop) -> int:
    held = found.cache[kinds.FEDERATION].get("lab", "fl")
    return int(held["metadata"]["resourceVersion"]) if held else 0


async def test_more_of_the_same_is_told_later_and_news_at_once(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "TELL_S", 3600.0)
    declare(api)
    async with operator(api) as found:
        await api.until(lambda: status(api))
        await api.until(partial(_quiet, found))
        told = found._kube.written["Federation"]
        decide(api, "c1")
        await api.until(lambda: installed(api) == {"c1"})
        await api.until(partial(_quiet, found))
        assert status(api)["sitesWanted"] == 0
        assert found._kube.written["Federation"] == told
        api.refusals["GET /apis/work.open-cluster-management.io/v1/manifestworks"] = (403, "No")
        api.end_watches()
        await api.until(lambda: "ManifestWork" in found.cache.faults)
        decide(api)
        await api.until(lambda: status(api)["conditions"][0]["reason"] == "CannotLook")


async def test_a_costly_look_is_rested_from(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "REST", 1e9)
    monkeypatch.setattr(loops, "LONGEST_REST_S", 1000.0)
    declare(api)
    async with operator(api) as found:
        await api.until(lambda: status(api))
        await api.until(lambda: NAMES.addon in found._rested and not found._busy)
        looks = found.looks
        decide(api, "c1")
        await api.until(lambda: found.cache[kinds.DECISION].objects)
        assert found._due[NAMES.addon] > time.monotonic() + 60
        assert found.looks == looks


async def test_what_changes_wakes_its_own_federation_alone(api: FakeApi) -> None:
    other = Names("fl2", "lab")
    declare(api)
    declare(api, namespace="fl2")
    async with operator(api) as found:
        await api.until(lambda: status(api) and status(api, other))
        await api.until(lambda: not found._busy)
        decide(api, "c1", names=other)
        await api.until(lambda: installed(api, other) == {"c1"})
        assert installed(api) == set()
        assert NAMES.addon in found.tenants
        assert other.addon in found.tenants


async def test_what_stands_in_the_way_is_a_condition_and_an_event(api: FakeApi) -> None:
    api.served -= {kinds.WORK}
    declare(api)
    async with operator(api):
        await api.until(lambda: status(api))
        first = status(api)["conditions"][0]
        assert first["reason"] == "OcmMissing"
        assert "clusteradm" in first["message"]
        await api.until(lambda: any(kind is kinds.EVENT for kind, _, _ in api.objects))
    assert api.get(kinds.STATEFUL_SET, "lab-hub", "fl") is None


async def test_somebody_elses_object_is_not_touched(api: FakeApi) -> None:
    api.put(kinds.SERVICE, "lab", "fl", spec={"theirs": True})
    declare(api)
    async with operator(api):
        await api.until(lambda: status(api))
    assert status(api)["conditions"][0]["reason"] == "NameTaken"
    kept = api.get(kinds.SERVICE, "lab", "fl")
    assert kept is not None
    assert kept["spec"] == {"theirs": True}


async def test_a_document_that_is_none_is_told_in_its_status(api: FakeApi) -> None:
    api.put(kinds.FEDERATION, "lab", "fl", spec={"groups": [{"name": "all", "on": "moon"}]})
    async with operator(api):
        await api.until(lambda: status(api))
    assert status(api)["phase"] == "Degraded"
    assert status(api)["conditions"][0]["status"] == "False"


async def test_a_deleted_federation_leaves_nothing(api: FakeApi) -> None:
    declare(api)
    async with operator(api) as found:
        await api.until(lambda: status(api))
        decide(api, "c1")
        await api.until(lambda: status(api).get("sitesWanted") == 1)
        held = api.get(kinds.FEDERATION, "lab", "fl")
        assert held is not None
        gone = {**held["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        api.put(kinds.FEDERATION, "lab", "fl", spec=SPEC, metadata=gone)
        await api.until(lambda: _finalizers(api) == [])
        api.drop(kinds.FEDERATION, "lab", "fl")
        await api.until(lambda: not found.tenants)
    label = "umbel.dev/federation"
    left = [key for key, c in api.objects.items() if label in c["metadata"].get("labels", {})]
    assert left == []


def _finalizers(api: FakeApi) -> list[str] | None:
    held = api.get(kinds.FEDERATION, "lab", "fl")
    found: list[str] | None = held["metadata"].get("finalizers") if held else None
    return found


async def test_a_kind_that_cannot_be_seen_changes_nothing(api: FakeApi) -> None:
    declare(api)
    async with operator(api) as found:
        await api.until(lambda: status(api))
        decide(api, "c1")
        await api.until(lambda: status(api).get("sitesWanted") == 1)
        api.refusals["GET /apis/work.open-cluster-management.io/v1/manifestworks"] = (403, "No")
        api.end_watches()
        await api.until(lambda: "ManifestWork" in found.cache.faults)
        decide(api)
        await api.until(lambda: status(api)["conditions"][0]["reason"] == "CannotLook")
        assert installed(api) == {"c1"}
