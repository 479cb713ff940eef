"""Our table against the Flower that is installed, and against one that has moved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from umbel.diagnosis.gather.flower import SelfTest
from umbel.flower import selftest
from umbel.flower.routes import Api
from umbel.flower.selftest import Use

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's own imports
STRATEGY = "flwr.serverapp.strategy.strategy"


def test_the_installed_flower_is_as_we_know_it() -> None:
    with SelfTest() as test:
        seen = test.result()
    assert seen.mismatches == ()
    assert seen.version


def test_a_flower_that_cannot_be_loaded_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "flwr"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('half installed')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with SelfTest() as test:
        seen = test.result()
    assert "half installed" in str(seen.mismatches)


def test_a_flag_that_is_gone_is_named() -> None:
    found = selftest.missing_flags("flower-supernode", frozenset({"--superlink", "--gone"}))
    assert list(found) == ["flower-supernode has no --gone"]


def test_a_route_that_is_gone_is_named() -> None:
    paths = frozenset({"/v1/fleet/pull-messages", "/v1/fleet/gone"})
    assert list(selftest.missing_routes(Api.FLEET, paths)) == ["there is no route /v1/fleet/gone"]


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (Use(STRATEGY, "Strategy.start", ("grid", "num_rounds")), []),
        (Use(STRATEGY, "Strategy.begin"), [f"{STRATEGY} has no Strategy.begin"]),
        (Use("flwr.not_there", "x"), ["flwr.not_there has no x"]),
        (
            Use(STRATEGY, "Strategy.start", ("grid", "rounds")),
            [f"Strategy.start of {STRATEGY} does not take rounds"],
        ),
    ],
)
def test_what_we_wrap_must_be_there_and_take_what_we_give(use: Use, said: list[str]) -> None:
    assert list(selftest.misfit(use)) == said


def test_a_flower_that_was_loaded_without_the_switches_is_caught() -> None:
    # As a process does that forgets them: only asked, no event is ever made.
    code = "from umbel.flower import selftest; print(*list(selftest.phones_home())[:1])"
    env = {k: v for k, v in os.environ.items() if not k.startswith("FLWR_")}
    quiet = {**env, "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_HOME": os.devnull}
    said = subprocess.run(
        [sys.executable, "-c", code], env=quiet, check=True, capture_output=True, text=True
    )
    assert "telemetry" in said.stdout
