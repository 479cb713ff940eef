"""Each node executes each round once, no more and no less."""

from __future__ import annotations

import pytest
from tests.integration.exactness.conftest import (
    LONG,
    assert_all_counted,
    bring_up,
    counted_rounds,
    start_counted,
)
from tests.integration.federation.conftest import Home, MakeHome


@pytest.mark.timeout(600 if LONG else 120)
def test_every_node_executes_every_round_once(exact_home: Home, make_home: MakeHome) -> None:
    rounds, nodes = (50, 10) if LONG else (10, 3)
    home, name = exact_home, "warm"
    if LONG:
        home, name = make_home("ten"), "ten"
        bring_up(home, name, nodes)
    run = start_counted(home, name, rounds, nodes)
    run.completed(timeout_s=300)
    assert_all_counted(run.log, rounds, nodes)
    executed = run.executions()
    assert len(executed) == nodes
    assert set(map(tuple, executed.values())) == {tuple(range(1, rounds + 1))}


def test_a_sites_memory_is_saved_before_its_next_round(exact_home: Home) -> None:
    """Its state takes longer to save than its reply takes to travel."""
    rounds, large = 3, {"state-bytes": 20_000_000}
    run = start_counted(exact_home, "warm", rounds, 1, **large)
    run.completed()
    told = [sorted(calls for _, calls in row["calls"]) for row in counted_rounds(run.log)]
    assert told == [[number] * 3 for number in range(1, rounds + 1)]
