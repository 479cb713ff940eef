from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.kube.fake_api import FakeApi

from umbel.kube import cache as caches
from umbel.kube import kinds
from umbel.kube.cache import Cache, Watched
from umbel.kube.kinds import Kind, Object


class Told:
    """Writes down what the cache tells."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, kind: Kind, content: Object) -> None:
        self.names.append(f"{kind.name} {content['metadata']['name']}")


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "AGAIN_S", 0.0)


@asynccontextmanager
async def running(api: FakeApi, told: Told, *watched: Watched) -> AsyncIterator[Cache]:
    cache = Cache(api.kube(), watched or (Watched(kinds.LEASE),), told)
    keeping = asyncio.create_task(cache.run())
    await cache.filled()
    try:
        yield cache
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def lease(name: str, version: int, **labels: str) -> Object:
    meta = {"name": name, "namespace": "lab", "resourceVersion": str(version), "labels": labels}
    return {"metadata": meta}


def test_an_older_object_never_replaces_a_newer_one() -> None:
    held = Watched(kinds.LEASE)
    assert held.put(lease("one", 9))
    assert not held.put(lease("one", 8))
    assert not held.put(lease("one", 9))
    assert held.objects["lab", "one"]["metadata"]["resourceVersion"] == "9"


def test_an_object_is_found_by_its_index_and_leaves_it_with_its_label() -> None:
    held = Watched(kinds.LEASE, index=lambda content: content["metadata"]["labels"].get("of", ""))
    held.put(lease("b", 1, of="x"))
    held.put(lease("a", 2, of="x"))
    assert [one["metadata"]["name"] for one in held.of("x")] == ["a", "b"]
    held.put(lease("a", 3, of="y"))
    assert [one["metadata"]["name"] for one in held.of("x")] == ["b"]
    assert held.of("nothing") == []


def test_what_is_trimmed_away_is_not_kept_and_what_was_kept_goes() -> None:
    held = Watched(kinds.LEASE, trim=lambda c: c if c["metadata"]["labels"].get("ours") else None)
    assert not held.put(lease("one", 1))
    assert held.put(lease("one", 2, ours="yes"))
    assert held.put(lease("one", 3))
    assert held.objects == {}


def test_a_change_of_what_nobody_keeps_is_no_change() -> None:
    held = Watched(kinds.LEASE, trim=lambda content: {"metadata": content["metadata"]})
    assert held.put(lease("one", 1) | {"status": "a"})
    assert not held.put(lease("one", 2) | {"status": "b"})
    assert held.objects["lab", "one"]["metadata"]["resourceVersion"] == "2"
    assert held.put(lease("one", 3, of="x"))


def test_managed_fields_are_dropped() -> None:
    held = Watched(kinds.LEASE)
    content = lease("one", 1)
    content["metadata"]["managedFields"] = [{}]
    held.put(content)
    assert "managedFields" not in held.objects["lab", "one"]["metadata"]


def test_forgetting_says_whether_it_was_there() -> None:
    held = Watched(kinds.LEASE)
    held.put(lease("one", 1))
    assert held.drop(("lab", "one"))
    assert not held.drop(("lab", "one"))


async def test_what_is_there_is_known_when_it_is_filled(api: FakeApi, told: Told) -> None:
    api.put(kinds.LEASE, "one", "lab")
    async with running(api, told) as cache:
        found = cache[kinds.LEASE].get("one", "lab")
        assert found is not None
        assert (found["apiVersion"], found["kind"]) == (kinds.LEASE.api, "Lease")
        assert cache.has(kinds.LEASE)
        assert not cache.has(kinds.SECRET)
        assert cache.faults == {}
    assert told.names == ["Lease one"]


async def test_changes_come_by_watching_and_nothing_is_asked_again(
    api: FakeApi, told: Told
) -> None:
    async with running(api, told) as cache:
        await api.until(lambda: api.watching(kinds.LEASE))
        asked = len(api.asked)
        api.put(kinds.LEASE, "one", "lab")
        api.put(kinds.LEASE, "one", "lab", spec={"holderIdentity": "b"})
        api.drop(kinds.LEASE, "one", "lab")
        await api.until(lambda: len(told.names) == 3)
        assert cache[kinds.LEASE].get("one", "lab") is None
        assert len(api.asked) == asked


async def test_a_watch_that_ends_goes_on_where_it_was(api: FakeApi, told: Told) -> None:
    async with running(api, told):
        await api.until(lambda: api.watching(kinds.LEASE))
        api.bookmark(kinds.LEASE)
        api.end_watches()
        await api.until(lambda: api.watching(kinds.LEASE))
    assert [asked.split()[0] for asked in api.asked] == ["GET", "WATCH", "WATCH"]


async def test_a_forgotten_version_means_listing_again(api: FakeApi, told: Told) -> None:
    api.put(kinds.LEASE, "gone", "lab")
    api.put(kinds.LEASE, "stays", "lab")
    async with running(api, told) as cache:
        await api.until(lambda: api.watching(kinds.LEASE))
        api.end_watches(gone=True)
        api.drop(kinds.LEASE, "gone", "lab")
        api.put(kinds.LEASE, "new", "lab")
        await api.until(lambda: api.watching(kinds.LEASE))
        assert sorted(name for _, name in cache[kinds.LEASE].objects) == ["new", "stays"]
    assert told.names == ["Lease gone", "Lease stays", "Lease new", "Lease gone"]


async def test_a_kind_that_cannot_be_listed_is_a_fault_and_not_an_empty_list(
    api: FakeApi, told: Told
) -> None:
    api.refusals["GET /apis/coordination"] = (403, "Forbidden")
    async with running(api, told) as cache:
        assert "Forbidden" in cache.faults["Lease"]
        api.refusals.clear()
        await api.until(lambda: api.watching(kinds.LEASE))
        assert cache.faults == {}


async def test_a_server_that_falls_silent_is_a_fault_and_what_was_seen_stays(
    api: FakeApi, told: Told
) -> None:
    api.put(kinds.LEASE, "one", "lab")
    async with running(api, told) as cache:
        await api.until(lambda: api.watching(kinds.LEASE))
        api.silent = True
        api.end_watches()
        await api.until(lambda: cache.faults)
        assert cache[kinds.LEASE].get("one", "lab") is not None
        api.silent = False
        await api.until(lambda: not cache.faults)


async def test_only_the_named_namespaces_are_looked_at_and_each_forgets_its_own(
    api: FakeApi, told: Told
) -> None:
    for namespace in ("lab", "ward", "other"):
        api.put(kinds.LEASE, "one", namespace)
    async with running(api, told, Watched(kinds.LEASE, ("lab", "ward"))) as cache:
        assert sorted(cache[kinds.LEASE].objects) == [("lab", "one"), ("ward", "one")]
        await api.until(lambda: api.watching(kinds.LEASE))
        api.end_watches(gone=True)
        api.drop(kinds.LEASE, "one", "lab")
        await api.until(lambda: sorted(cache[kinds.LEASE].objects) == [("ward", "one")])
