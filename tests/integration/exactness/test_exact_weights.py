"""The same app has the same weights in the end, here and in stock Flower."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.integration.exactness.beside import (
    ROUNDS,
    Stock,
    assert_same,
    exact_app,
    read_weights,
)
from tests.integration.exactness.conftest import LONG, bring_up
from tests.integration.federation.conftest import APPS, Home

pytestmark = pytest.mark.long

FRAMEWORKS = ("numpy", "sklearn")
NODES = (1, 3) if LONG else (1,)
COMPARED = FRAMEWORKS if LONG else ("numpy",)  # stock Flower needs a dozen seconds for each
MODES = ("warm", "fresh")
THREE = [(f, m) for f in FRAMEWORKS for m in MODES if LONG or (f, m) != ("sklearn", "fresh")]
References = dict[tuple[str, int], Path]


@pytest.fixture(scope="session")
def references(stock_side: Stock, apps: Path) -> References:
    """Start every run of stock Flower at once; each test waits for its own."""
    return {(f, n): stock_side.weights(f, n, apps) for f in COMPARED for n in NODES}


@pytest.fixture(scope="session")
def both_modes(exact_home: Home) -> Home:
    """Give a home with a federation for each way of starting tasks: `warm` and `fresh`."""
    bring_up(exact_home, "fresh", 3, {"exec": "fresh"})
    return exact_home


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Give the app's own module for a framework, to be called here."""
    monkeypatch.syspath_prepend(str(APPS / "exact"))
    yield lambda framework: import_module(f"exact.with_{framework}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "exact"]:
        del sys.modules[name]


@dataclass(frozen=True)
class Ours:
    """Runs the app with Umbel."""

    home: Home
    apps: Path
    folder: Path

    def weights(self, mode: str, framework: str, nodes: int) -> list[Any]:
        """Run it to its end and fetch its model."""
        words = ("-c", f"min-nodes={nodes}", "-c", f"num-server-rounds={ROUNDS}")
        run_id = self.home.submit(exact_app(self.apps, framework), *words, name=mode)
        ended = self.home.until_over(run_id, mode)
        assert (ended["status"], ended["rounds_done"]) == ("completed", ROUNDS)
        self.home.umbel("pull", run_id, str(self.folder / mode), "-n", mode).ok()
        return read_weights(self.folder / mode / "model.npz")


@pytest.fixture
def ours(both_modes: Home, apps: Path, tmp_path: Path) -> Ours:
    return Ours(both_modes, apps, tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", COMPARED)
@pytest.mark.parametrize("nodes", NODES)
def test_the_final_weights_are_those_of_stock_flower(
    references: References, ours: Ours, framework: str, nodes: int
) -> None:
    found = [ours.weights(mode, framework, nodes) for mode in MODES]
    theirs = read_weights(references[framework, nodes])
    for weights in found:
        assert_same(weights, theirs, nodes)


@pytest.mark.parametrize(("framework", "mode"), THREE)
def test_the_weights_of_three_nodes_are_the_weighted_mean(
    ours: Ours, models: Callable[[str], Any], mode: str, framework: str
) -> None:
    model = models(framework)
    expected = model.initial()
    for _ in range(ROUNDS):
        shards = [model.trained(expected, shard) for shard in range(3)]
        sums = [sum((n + 1) * a for n, a in enumerate(each)) for each in zip(*shards, strict=True)]
        expected = [each / 6 for each in sums]
    assert_same(ours.weights(mode, framework, 3), expected, 3)
