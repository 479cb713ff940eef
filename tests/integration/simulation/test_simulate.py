"""`umbel simulate`: where Ray is installed it trains, where it is not it says what to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

APPS = Path(__file__).parents[2] / "apps"
HERE = find_spec("ray") is not None
LONGEST_S = 110.0


def simulate(tmp_path: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "UMBEL_HOME": str(tmp_path / "umbel"), **more}
    return subprocess.run(
        [sys.executable, "-m", "umbel.cli.main", "simulate", *words],
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )


def refused(said: subprocess.CompletedProcess[str]) -> bool:
    """Whether it was refused as it must be without Ray, and left nothing behind."""
    clear = "error[U316]" in said.stderr and "pip install 'umbel[simulation]'" in said.stderr
    return clear and said.returncode == 2 and said.stdout == "" and "Traceback" not in said.stderr


@pytest.mark.timeout(120)
def test_an_app_trains_with_simulated_nodes_or_ray_is_asked_for(tmp_path: Path) -> None:
    words = (str(APPS / "message_numpy"), "--nodes", "5", "-o", "json")
    with tempfile.TemporaryDirectory() as short:
        said = simulate(tmp_path, *words, "--save", str(tmp_path / "kept"), TMPDIR=short)
        assert list(Path(short).iterdir()) == []
    assert not (tmp_path / "umbel").exists()  # no home is needed
    if not HERE:
        assert refused(said)
        return
    assert said.returncode == 0, said.stderr
    ended = json.loads(said.stdout)
    assert (ended["status"], ended["rounds_done"]) == ("completed", 3)
    # Every round adds (2n + 1) / 3 to each weight w; the accuracy is w / (1 + w).
    assert ended["accuracy"] == pytest.approx(11 / 12)
    assert {p.name for p in (tmp_path / "kept").iterdir()} >= {"model.npz", "metrics.json"}


@pytest.mark.timeout(120)
def test_an_unknown_setting_is_refused_or_ray_is_asked_for_first(tmp_path: Path) -> None:
    said = simulate(tmp_path, str(APPS / "message_numpy"), "-c", "no-such-setting=1")
    if not HERE:
        assert refused(said)
        return
    assert said.returncode == 2
    assert "error[U318]" in said.stderr
    assert "num-server-rounds" in said.stderr


@pytest.mark.timeout(120)
def test_an_app_that_cannot_be_loaded_fails_with_its_traceback_or_ray_is_asked_for_first(
    tmp_path: Path,
) -> None:
    said = simulate(tmp_path, str(APPS / "import_error"), "--nodes", "2")
    if not HERE:
        assert refused(said)
        return
    assert said.returncode == 1
    assert "a_package_that_nobody_has" in said.stderr
    assert "the ClientApp at every node raised an exception" in said.stderr


def test_a_wrong_word_is_refused_before_anything_is_looked_at(tmp_path: Path) -> None:
    said = simulate(tmp_path, "--nodes", "0")
    assert said.returncode == 2
    assert "--nodes" in said.stderr
