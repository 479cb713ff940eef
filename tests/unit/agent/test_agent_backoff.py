from __future__ import annotations

from itertools import accumulate

import pytest

from umbel.agent.backoff import LONGEST_S, STEADY_S, delay_s, failures_after

FLOWERS_TRAP_S = 60.0  # so long a killed SuperNode is taken for online


def test_the_first_restart_is_quick_and_each_wait_is_twice_the_last() -> None:
    assert [delay_s(n) for n in (1, 2, 3, 4)] == [0.2, 0.4, 0.8, 1.6]


@pytest.mark.parametrize("failures", [0, -1, 1])
def test_there_is_always_a_wait(failures: int) -> None:
    assert delay_s(failures) == 0.2


@pytest.mark.parametrize("failures", [8, 100, 10**9])
def test_no_wait_is_longer_than_the_longest(failures: int) -> None:
    assert delay_s(failures) == LONGEST_S


def test_the_waits_outlast_the_time_in_which_flower_refuses_a_killed_node() -> None:
    starts = list(accumulate(delay_s(n) for n in range(1, 20)))
    after = next(at_s for at_s in starts if at_s > FLOWERS_TRAP_S)
    assert after - FLOWERS_TRAP_S <= LONGEST_S


def test_who_ran_steadily_begins_from_scratch() -> None:
    assert failures_after(7, STEADY_S) == 1
    assert failures_after(7, STEADY_S - 1) == 8
    assert failures_after(0, 0.0) == 1
