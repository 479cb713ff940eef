"""A PyTorch app has the weights of stock Flower, from an environment that was built offline."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.exactness.beside import (
    ROUNDS,
    Stock,
    assert_same,
    exact_app,
    read_weights,
)
from tests.integration.exactness.conftest import bring_up
from tests.integration.federation.conftest import Home, MakeHome, make_home

from stock import stock

__all__ = ["make_home"]

NODES = (1, 3)
MODES = ("warm", "fresh")


@pytest.fixture(scope="module")
def wheels() -> Path:
    """Give the folder that the README's commands made."""
    folder = os.environ.get("UMBEL_WHEELS", "")
    if not Path(folder, "torch-1.13.1-cp311-cp311-linux_x86_64.whl").exists():
        pytest.fail("UMBEL_WHEELS names no folder of wheels: tests/frameworks/README.md")
    return Path(folder).absolute()


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("torch-apps")


@pytest.fixture(scope="module")
def references(wheels: Path, apps: Path) -> Iterator[dict[int, Path]]:
    """Run the app in stock Flower, which finds PyTorch on its path."""
    place = apps / "site"
    command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-index"]
    subprocess.run(
        [*command, "--find-links", str(wheels), "--target", str(place), "torch", "numpy<2"],
        check=True,
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", str(place))
        with stock(max(NODES)) as (_, folder):
            side = Stock(folder, max(NODES))
            yield {nodes: side.weights("torch", nodes, apps) for nodes in NODES}


@pytest.fixture(scope="module")
def home(make_home: MakeHome, wheels: Path) -> Home:
    """Give a home with a federation for each way of starting tasks."""
    made = make_home("torch", PYTHONPATH="")
    for mode in MODES:
        bring_up(made, mode, max(NODES), {"exec": mode, "wheels": str(wheels)})
    return made


@pytest.mark.timeout(600)
@pytest.mark.parametrize("nodes", NODES)
def test_the_final_weights_are_those_of_stock_flower(
    references: dict[int, Path], home: Home, apps: Path, tmp_path: Path, nodes: int
) -> None:
    app = exact_app(apps, "torch")
    words = ("-c", f"min-nodes={nodes}", "-c", f"num-server-rounds={ROUNDS}")
    for mode in MODES:
        run_id = home.submit(app, *words, name=mode)
        ended = home.until_over(run_id, mode, 300)
        assert (ended["status"], ended["rounds_done"]) == ("completed", ROUNDS), ended
        home.umbel("pull", run_id, str(tmp_path / mode), "-n", mode).ok()
        ours = read_weights(tmp_path / mode / "model.npz")
        assert_same(ours, read_weights(references[nodes]), nodes)
