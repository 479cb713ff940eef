from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi

from umbel.kube import kinds
from umbel.kube.kinds import Object
from umbel.operator.leading import LEASE_S, RENEW_S, Leader, LeaseLost


class Clock:
    """Time passes only while somebody pauses; what is to happen then is told by the test."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.naps = 0
        self.happens: dict[int, Any] = {}  # after so many naps

    def __call__(self) -> datetime:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.naps += 1
        self.now += timedelta(seconds=seconds)
        if self.naps in self.happens:
            self.happens[self.naps]()
        assert self.naps < 50, "it waits for ever"


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def leader(api: FakeApi, clock: Clock, name: str) -> Leader:
    return Leader(api.kube(), "umbel-system", "op", name, clock=clock, pause=clock.pause)


def lease(api: FakeApi) -> Object:
    found = api.get(kinds.LEASE, "op", "umbel-system")
    assert found is not None
    spec: Object = found["spec"]
    return spec


async def test_the_first_one_leads_at_once(api: FakeApi, clock: Clock) -> None:
    await leader(api, clock, "a").become()
    assert clock.naps == 0
    assert lease(api)["holderIdentity"] == "a"
    assert lease(api)["leaseTransitions"] == 1


async def test_a_second_one_waits_until_the_lease_has_ended(api: FakeApi, clock: Clock) -> None:
    await leader(api, clock, "a").become()
    began = clock.now
    await leader(api, clock, "b").become()
    assert clock.now - began > timedelta(seconds=LEASE_S)
    assert lease(api)["holderIdentity"] == "b"
    assert lease(api)["leaseTransitions"] == 2


async def test_a_lease_that_was_given_up_is_taken_at_once(api: FakeApi, clock: Clock) -> None:
    first = leader(api, clock, "a")
    await first.become()
    await first.give_up()
    await leader(api, clock, "b").become()
    assert clock.naps == 0
    assert lease(api)["holderIdentity"] == "b"


async def test_nobody_gives_up_somebody_elses_lease(api: FakeApi, clock: Clock) -> None:
    await leader(api, clock, "a").become()
    await leader(api, clock, "b").give_up()
    assert lease(api)["holderIdentity"] == "a"


async def test_renewing_keeps_the_time_it_began(api: FakeApi, clock: Clock) -> None:
    first = leader(api, clock, "a")
    await first.become()
    began = lease(api)["acquireTime"]
    clock.now += timedelta(seconds=RENEW_S)
    await first.become()
    assert lease(api)["acquireTime"] == began
    assert lease(api)["renewTime"] > began
    assert lease(api)["leaseTransitions"] == 1


async def test_who_stays_renews_until_somebody_else_has_it(api: FakeApi, clock: Clock) -> None:
    first = leader(api, clock, "a")
    await first.become()

    def stolen() -> None:
        spec = {**lease(api), "holderIdentity": "b", "renewTime": clock.now.isoformat()}
        api.put(kinds.LEASE, "op", "umbel-system", spec=spec)

    clock.happens[3] = stolen
    with pytest.raises(LeaseLost):
        await first.stay()
    assert clock.naps == 3
    assert lease(api)["holderIdentity"] == "b"


async def test_a_short_silence_is_borne_and_a_long_one_ends_it(api: FakeApi, clock: Clock) -> None:
    first = leader(api, clock, "a")
    await first.become()
    clock.happens = {
        2: lambda: setattr(api, "silent", True),
        3: lambda: setattr(api, "silent", False),
        5: lambda: setattr(api, "silent", True),
    }
    began = clock.now
    with pytest.raises(LeaseLost):
        await first.stay()
    lasted = clock.now - began
    assert lasted > timedelta(seconds=4 * RENEW_S)
    # It has ended before the lease that it renewed last may be taken by another.
    assert lasted <= timedelta(seconds=4 * RENEW_S + LEASE_S)


async def test_of_two_that_try_at_once_one_leads(api: FakeApi, clock: Clock) -> None:
    one, two = leader(api, clock, "a"), leader(api, clock, "b")
    assert [await one._take(), await two._take()] == [True, False]
    seen = api.get(kinds.LEASE, "op", "umbel-system")
    assert seen is not None
    clock.now += timedelta(seconds=LEASE_S + 1)
    late = api.kube()
    stale = {**seen, "spec": {**seen["spec"], "holderIdentity": "late"}}
    assert await two._take()
    assert await late.replace(stale) is None
    assert lease(api)["holderIdentity"] == "b"
