"""Gate and SuperLink killed at any moment of a run: all rounds are done, each once."""

from __future__ import annotations

import random
import threading

import pytest
from tests.integration.exactness.conftest import LONG, Counted, assert_all_counted, start_counted
from tests.integration.federation.conftest import Home

KILLS = 8 if LONG else 1
ROUNDS_BETWEEN = 3
LATEST_KILL_S = 0.4


def kill_between(run: Counted, unit: str, chance: random.Random) -> None:
    """Kill the unit at some moment of some round, again and again while the run goes on."""
    for number in range(1, KILLS + 1):
        run.until_round(number * ROUNDS_BETWEEN)
        threading.Event().wait(chance.uniform(0, LATEST_KILL_S))
        gone = run.home.units(run.name)[unit]
        run.home.kill(gone)
        run.until_replaced(unit, gone)


@pytest.mark.timeout(900 if LONG else 300)
@pytest.mark.parametrize("unit", ["hub/gate", "hub/superlink"])
def test_a_kill_costs_no_round_and_repeats_none(exact_home: Home, unit: str) -> None:
    rounds = (KILLS + 1) * ROUNDS_BETWEEN
    run = start_counted(exact_home, "warm", rounds, 3)
    kill_between(run, unit, random.Random(unit))  # noqa: S311
    run.completed(timeout_s=240)
    assert_all_counted(run.log, rounds, 3)
    executed = run.executions()
    assert len(executed) == 3
    assert set(map(tuple, executed.values())) == {tuple(range(1, rounds + 1))}
