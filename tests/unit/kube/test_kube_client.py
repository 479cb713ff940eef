from __future__ import annotations

import asyncio

import pytest
from tests.unit.kube.fake_api import FakeApi

from umbel.kube import kinds
from umbel.kube.client import KubeRefused, KubeUnreachable, Limiter, WatchEnded

LEASE = {
    "apiVersion": kinds.LEASE.api,
    "kind": "Lease",
    "metadata": {"name": "one", "namespace": "lab"},
    "spec": {"holderIdentity": "a"},
}


class Clock:
    """A clock that stands still until somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.naps: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def pause(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


async def test_a_burst_passes_at_once_and_the_rest_at_the_pace(clock: Clock) -> None:
    limiter = Limiter(10, 3, clock=clock, pause=clock.pause)
    for _ in range(3):
        await limiter.turn()
    assert clock.naps == []
    for _ in range(5):
        await limiter.turn()
    assert clock.naps == pytest.approx([0.1] * 5)


async def test_who_waits_meanwhile_waits_in_line(clock: Clock) -> None:
    naps: list[float] = []

    async def noted(seconds: float) -> None:
        naps.append(seconds)  # time stands still: as if all asked at the same moment

    limiter = Limiter(10, 1, clock=clock, pause=noted)
    for _ in range(4):
        await limiter.turn()
    assert naps == pytest.approx([0.1, 0.2, 0.3])


async def test_quiet_times_are_saved_up_to_one_burst(clock: Clock) -> None:
    limiter = Limiter(10, 3, clock=clock, pause=clock.pause)
    for _ in range(3):
        await limiter.turn()
    clock.now_s += 3600
    for _ in range(3):
        await limiter.turn()
    assert clock.naps == []
    await limiter.turn()
    assert clock.naps == pytest.approx([0.1])


async def test_every_request_but_a_watch_waits_for_its_turn(api: FakeApi, clock: Clock) -> None:
    kube = api.kube(limiter=Limiter(1, 1, clock=clock, pause=clock.pause))
    await kube.get(kinds.LEASE, "one", "lab")
    await kube.apply(LEASE)
    await kube.list(kinds.LEASE)
    assert len(clock.naps) == 2


async def test_an_object_that_is_not_there_is_none(api: FakeApi) -> None:
    assert await api.kube().get(kinds.LEASE, "one", "lab") is None


async def test_what_was_applied_is_there_and_counted(api: FakeApi) -> None:
    kube = api.kube()
    await kube.apply(LEASE)
    found = await kube.get(kinds.LEASE, "one", "lab")
    assert found is not None
    assert found["spec"] == {"holderIdentity": "a"}
    assert (kube.writes, dict(kube.written)) == (1, {"Lease": 1})


async def test_a_status_is_applied_beside_the_object(api: FakeApi) -> None:
    api.put(kinds.FEDERATION, "lab", "fl", spec={"groups": []})
    kube = api.kube()
    told = {"apiVersion": kinds.FEDERATION.api, "kind": "Federation"}
    meta = {"name": "lab", "namespace": "fl"}
    await kube.apply({**told, "metadata": meta, "status": {"phase": "Ready"}}, status=True)
    found = api.get(kinds.FEDERATION, "lab", "fl")
    assert found is not None
    assert found["status"] == {"phase": "Ready"}
    assert found["spec"] == {"groups": []}


async def test_the_second_to_create_gets_none(api: FakeApi) -> None:
    kube = api.kube()
    assert await kube.create(LEASE) is not None
    assert await kube.create(LEASE) is None


async def test_who_replaces_what_changed_meanwhile_gets_none(api: FakeApi) -> None:
    kube = api.kube()
    mine = await kube.create(LEASE)
    assert mine is not None
    api.put(kinds.LEASE, "one", "lab", spec={"holderIdentity": "b"})
    assert await kube.replace(mine) is None
    found = api.get(kinds.LEASE, "one", "lab")
    assert found is not None
    assert found["spec"]["holderIdentity"] == "b"


async def test_a_change_of_something_that_is_gone_is_none(api: FakeApi) -> None:
    assert await api.kube().merge(kinds.LEASE, "one", "lab", {"spec": {}}) is None


async def test_deleting_says_whether_it_was_there(api: FakeApi) -> None:
    api.put(kinds.LEASE, "one", "lab")
    kube = api.kube()
    assert await kube.delete(kinds.LEASE, "one", "lab") is True
    assert await kube.delete(kinds.LEASE, "one", "lab") is False


async def test_a_long_list_is_read_page_by_page(api: FakeApi) -> None:
    api.page = 2
    for number in range(5):
        api.put(kinds.LEASE, f"l{number}", "lab")
    found, version = await api.kube().list(kinds.LEASE, "lab")
    assert [one["metadata"]["name"] for one in found] == ["l0", "l1", "l2", "l3", "l4"]
    assert version == "105"
    assert len(api.asked) == 3


async def test_only_what_has_the_label_is_listed(api: FakeApi) -> None:
    api.put(kinds.SECRET, "ours", "lab", metadata={"labels": {"umbel.dev/federation": "x"}})
    api.put(kinds.SECRET, "theirs", "lab")
    found, _ = await api.kube().list(kinds.SECRET, labels="umbel.dev/federation")
    assert [one["metadata"]["name"] for one in found] == ["ours"]


@pytest.mark.parametrize(
    ("status", "words"), [(403, "rights"), (401, "rights"), (422, "reason: Odd"), (404, "serve")]
)
async def test_a_refusal_has_the_servers_words_and_a_hint(
    api: FakeApi, status: int, words: str
) -> None:
    api.refusals["GET /apis/coordination"] = (status, "Odd")
    with pytest.raises(KubeRefused, match="it said Odd") as caught:
        await api.kube().list(kinds.LEASE)
    assert words in caught.value.hint
    assert (caught.value.status, caught.value.reason) == (status, "Odd")


async def test_a_refused_write_is_an_error_and_no_conflict(api: FakeApi) -> None:
    kube = api.kube()
    for method in ("POST", "PUT", "PATCH", "DELETE", "GET"):
        api.refusals[f"{method} /apis/coordination"] = (403, "Forbidden")
    for attempt in (
        kube.create(LEASE),
        kube.replace(LEASE),
        kube.apply(LEASE),
        kube.merge(kinds.LEASE, "one", "lab", {}),
        kube.delete(kinds.LEASE, "one", "lab"),
        kube.serves(kinds.LEASE),
    ):
        with pytest.raises(KubeRefused):
            await attempt


async def test_a_silent_server_is_named(api: FakeApi) -> None:
    api.silent = True
    with pytest.raises(KubeUnreachable, match=r"hub\.example.*nobody there"):
        await api.kube().list(kinds.LEASE)


async def test_what_a_hub_serves_is_found_by_asking(api: FakeApi) -> None:
    api.served -= {kinds.WORK_SET, kinds.PLACEMENT}
    kube = api.kube()
    assert await kube.serves(kinds.WORK)
    assert not await kube.serves(kinds.WORK_SET)
    assert not await kube.serves(kinds.PLACEMENT)


async def test_a_watch_tells_what_happens_until_the_server_ends_it(api: FakeApi) -> None:
    kube = api.kube()

    async def follow() -> list[tuple[str, str]]:
        watch = kube.watch(kinds.LEASE, "0", "lab")
        return [(what, content["metadata"]["name"]) async for what, content in watch]

    following = asyncio.create_task(follow())
    await api.until(lambda: api.watching(kinds.LEASE))
    api.put(kinds.LEASE, "one", "lab")
    api.put(kinds.LEASE, "one", "lab", spec={"holderIdentity": "b"})
    api.put(kinds.LEASE, "one", "elsewhere")
    api.drop(kinds.LEASE, "one", "lab")
    api.end_watches()
    assert await following == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]


async def test_a_forgotten_version_ends_the_watch_loudly(api: FakeApi) -> None:
    api.refusals["GET /apis/coordination"] = (410, "Expired")
    with pytest.raises(WatchEnded):
        await anext(aiter(api.kube().watch(kinds.LEASE, "1")))


async def test_a_refused_watch_is_a_refusal(api: FakeApi) -> None:
    api.refusals["GET /apis/coordination"] = (403, "Forbidden")
    with pytest.raises(KubeRefused):
        await anext(aiter(api.kube().watch(kinds.LEASE, "1")))


ROUTE = {
    "apiVersion": "gateway.networking.k8s.io/v1alpha2",
    "kind": "TLSRoute",
    "metadata": {"name": "door", "namespace": "lab"},
    "spec": {"hostnames": ["fleet.example.org"]},
}


@pytest.mark.parametrize("version", ["v1", "v1alpha3", "v1alpha2"])
async def test_a_kind_is_spoken_of_in_the_version_that_is_served(
    api: FakeApi, version: str
) -> None:
    served = f"gateway.networking.k8s.io/{version}"
    api.older[kinds.TLS_ROUTE] = served
    kube = api.kube()
    made = await kube.apply(ROUTE)
    assert made["apiVersion"] == served
    assert await kube.get(kinds.TLS_ROUTE, "door", "lab") is not None
    found, _ = await kube.list(kinds.TLS_ROUTE)
    assert [one["metadata"]["name"] for one in found] == ["door"]
    assert await kube.delete(kinds.TLS_ROUTE, "door", "lab") is True
    touched = [asked for asked in api.asked if "tlsroutes" in asked]
    assert all(f"/apis/{served}/" in asked for asked in touched)
    assert len(touched) == 4


async def test_a_version_that_comes_later_is_found(api: FakeApi) -> None:
    api.served.remove(kinds.TLS_ROUTE)
    kube = api.kube()
    with pytest.raises(KubeRefused, match="tlsroutes"):
        await kube.apply(ROUTE)
    api.served.add(kinds.TLS_ROUTE)
    api.older[kinds.TLS_ROUTE] = "gateway.networking.k8s.io/v1alpha3"
    assert (await kube.apply(ROUTE))["apiVersion"].endswith("v1alpha3")
    del api.older[kinds.TLS_ROUTE]
    assert await kube.get(kinds.TLS_ROUTE, "door", "lab") is None  # the old version is gone
    assert (await kube.apply(ROUTE))["apiVersion"].endswith("/v1")
