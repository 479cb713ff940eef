"""What must hold for every app folder in this repository."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umbel.apps import quickstart

Play = Callable[..., Any]

TESTS = Path(__file__).parents[2]
APPS = TESTS / "apps"
FIXTURES = sorted(file.parent for file in APPS.glob("*/pyproject.toml"))
FOLDERS = [*FIXTURES, TESTS.parent / "examples" / "legacy-app"]


def by_name(folder: Path) -> str:
    return folder.name


@pytest.mark.parametrize("folder", FOLDERS, ids=by_name)
def test_an_app_names_itself_and_its_halves(folder: Path) -> None:
    assert_is_an_app(folder)


def test_the_quickstart_names_itself_and_its_halves(tmp_path: Path) -> None:
    quickstart.write(tmp_path)
    assert_is_an_app(tmp_path)
    config = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert {"num-server-rounds", "learning-rate", "local-epochs", "fraction-train"} <= set(
        config["config"]
    )


def assert_is_an_app(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,31}", project["project"]["name"])
    app = project["tool"]["flwr"]["app"]
    assert app["publisher"]
    assert "min-nodes" in app["config"]
    for part in ("serverapp", "clientapp"):
        module, _, name = app["components"][part].partition(":")
        tree = ast.parse((folder / f"{module.replace('.', '/')}.py").read_text())
        assigned = {
            t.id
            for n in tree.body
            if isinstance(n, ast.Assign)
            for t in n.targets
            if isinstance(t, ast.Name)
        }
        assert name in assigned


@pytest.mark.parametrize("folder", FOLDERS, ids=by_name)
def test_no_app_knows_umbel(folder: Path) -> None:
    assert not [file for file in folder.rglob("*.py") if "umbel" in file.read_text().lower()]


def test_the_quickstart_code_does_not_know_umbel() -> None:
    code = {n: text for n, text in quickstart.read_template_files().items() if n.endswith(".py")}
    assert code
    assert not [name for name, text in code.items() if b"umbel" in text.lower()]


def test_every_fixture_is_told_about() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", (APPS / "README.md").read_text(), re.MULTILINE))
    assert told == {folder.name for folder in FIXTURES}


@pytest.mark.parametrize(("nodes", "rounds"), [(1, 1), (3, 3), (5, 2)])
def test_message_numpy_ends_with_the_promised_weights(play: Play, nodes: int, rounds: int) -> None:
    grid = play(APPS / "message_numpy", nodes, num_server_rounds=rounds)
    wanted = rounds * (2 * nodes + 1) / 3
    assert all(layer == pytest.approx(np.full(layer.shape, wanted)) for layer in grid.weights())


def test_client_crash_fails_at_one_partition_only(play: Play) -> None:
    grid = play(APPS / "client_crash", 3)
    failed = [reply for reply in grid.replies if reply.has_error()]
    assert {reply.metadata.src_node_id for reply in failed} == {2}
    assert len(failed) == 4
    assert len(grid.replies) == 12


def test_server_crash_raises_after_round_one(play: Play) -> None:
    with pytest.raises(RuntimeError, match="round 1 left nothing to train"):
        play(APPS / "server_crash", 2)


def test_context_counter_counts(play: Play) -> None:
    grid = play(APPS / "context_counter", 1)
    assert [each["calls"] for each in grid.metrics("train")] == [1, 3, 5]
    assert [each["calls"] for each in grid.metrics("evaluate")] == [2, 4, 6]


def test_custom_strategy_saves_what_it_promises(play: Play, tmp_path: Path) -> None:
    play(APPS / "custom_strategy", 2, save_to=str(tmp_path))
    saved = np.load(tmp_path / "custom_strategy_model.npz")["arr_0"]
    assert saved == pytest.approx(0.5 * (1 + 1 / 2 + 1 / 3))


def test_grid_only_prints_the_mean(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play(APPS / "grid_only", 3)
    assert "asked 3 nodes, 3 answered, mean=14.500" in capsys.readouterr().out


def test_metrics_odd_has_no_accuracy(play: Play) -> None:
    grid = play(APPS / "metrics_odd", 1)
    assert all("accuracy" not in each and np.isnan(each["loss"]) for each in grid.metrics("train"))


def test_import_error_names_what_is_missing(play: Play) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has"):
        play(APPS / "import_error", 1)


def test_prints_a_lot_prints_every_line_on_both_sides(
    play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    play(APPS / "prints_a_lot", 1)
    lines = capsys.readouterr().out.splitlines()
    for side in ("server", "client"):
        mine = [line for line in lines if line.startswith(side)]
        assert mine == [f"{side} line {number:05d}" for number in range(10_000)]
