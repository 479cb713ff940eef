from __future__ import annotations

import asyncio
import threading

from umbel.flower.fast.bells import Bells

SOON_S = 5.0  # never waited for in full
AT_ONCE_S = 0.001


async def test_a_ring_is_heard_by_those_who_listen_to_the_name() -> None:
    bells = Bells()
    with bells.listen(["a", "b"]) as both, bells.listen(["a"]) as one, bells.listen(["c"]) as other:
        bells.ring("a")
        assert await both.wait(SOON_S)
        assert await one.wait(SOON_S)
        assert not await other.wait(AT_ONCE_S)


async def test_a_ring_before_the_wait_is_heard_and_only_once() -> None:
    bells = Bells()
    with bells.listen(["a"]) as ear:
        bells.ring("a")
        bells.ring("a")
        assert await ear.wait(SOON_S)
        assert not await ear.wait(AT_ONCE_S)


async def test_a_ring_from_another_thread_is_heard() -> None:
    bells = Bells()
    with bells.listen(["a"]) as ear:
        thread = threading.Thread(target=bells.ring, args=("a",))
        thread.start()
        assert await ear.wait(SOON_S)
        thread.join()


async def test_who_stopped_listening_leaves_nothing_behind() -> None:
    bells = Bells()
    with bells.listen(["a"]), bells.listen(["a", "b"]):
        assert set(bells._ears) == {"a", "b"}
    assert bells._ears == {}
    bells.ring("a")


async def test_a_listener_that_fails_leaves_nothing_behind() -> None:
    bells = Bells()

    async def listens() -> None:
        with bells.listen(["a"]) as ear:
            await ear.wait(SOON_S)

    listening = asyncio.create_task(listens())
    while not bells._ears:
        await asyncio.wait([listening], timeout=AT_ONCE_S)
    listening.cancel()
    await asyncio.wait([listening])
    assert bells._ears == {}


async def test_rings_in_a_later_block_come_at_its_end() -> None:
    bells = Bells()
    with bells.listen(["a"]) as ear:
        with bells.later():
            bells.ring("a")
            assert not await ear.wait(AT_ONCE_S)
        assert await ear.wait(SOON_S)


async def test_a_later_block_in_a_later_block_waits_for_the_outer_one() -> None:
    bells = Bells()
    with bells.listen(["a"]) as ear:
        with bells.later():
            with bells.later():
                bells.ring("a")
            assert not await ear.wait(AT_ONCE_S)
        assert await ear.wait(SOON_S)


async def test_a_later_block_delays_no_other_thread() -> None:
    bells = Bells()
    with bells.listen(["a"]) as ear, bells.later():
        thread = threading.Thread(target=bells.ring, args=("a",))
        thread.start()
        assert await ear.wait(SOON_S)
        thread.join()


def test_a_ring_after_the_loop_has_ended_is_no_harm() -> None:
    bells = Bells()

    async def listens() -> object:
        listening = bells.listen(["a"])
        listening.__enter__()
        return listening

    kept = asyncio.run(listens())
    bells.ring("a")
    assert kept is not None


def test_a_ring_that_nobody_ever_listened_to_is_no_harm() -> None:
    Bells().ring("a")
