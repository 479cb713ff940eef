from __future__ import annotations

import asyncio

import pytest

from umbel.kube.client import KubeUnreachable
from umbel.targets.ocm.writing import AT_ONCE, side_by_side


class Worker:
    """Counts how many work at the same time."""

    def __init__(self, fails: int | None = None) -> None:
        self.done: list[int] = []
        self.most = 0
        self._now = 0
        self._fails = fails

    async def __call__(self, number: int) -> None:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        if number == self._fails:
            raise KubeUnreachable("https://hub", "gone")
        self.done.append(number)


async def test_everything_is_done_some_at_a_time() -> None:
    worker = Worker()
    await side_by_side(worker, range(50))
    assert sorted(worker.done) == list(range(50))
    assert worker.most == AT_ONCE


async def test_nothing_to_do_is_done() -> None:
    await side_by_side(Worker(), [])


async def test_after_a_failure_none_is_begun_and_it_is_told() -> None:
    worker = Worker(fails=0)
    with pytest.raises(KubeUnreachable):
        await side_by_side(worker, range(50))
    assert len(worker.done) < AT_ONCE
