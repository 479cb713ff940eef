"""A Flower that is not the one we know: its own ways are taken, runs work, the doctor tells."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.exactness.conftest import LONG, Counted, assert_all_counted, start_counted
from tests.integration.federation.conftest import Home, MakeHome, Said

from umbel.exec.environments import PLACE, USED, default_root
from umbel.flower.fast.guard import KNOWN, TOUCHED, Way

pytestmark = pytest.mark.long

ROUNDS = 2 if LONG else 1
EVERYTHING = tuple(KNOWN)


def alone(way: Way) -> str:
    """Give the module that closes this way, with as few others as there can be."""
    return min(TOUCHED[way], key=lambda module: sum(module in each for each in TOUCHED.values()))


SINGLE = {way.name.lower(): (alone(way),) for way in Way}
CHANGES = {"everything": EVERYTHING, **(SINGLE if LONG else {})}


def copy(environment: Path, to: Path, changed: tuple[str, ...]) -> Path:
    """Copy an environment, with other sources of some modules; most of it are links."""
    shutil.copytree(
        environment, to, symlinks=True, ignore=shutil.ignore_patterns("site-packages", "lib64")
    )
    (original,) = environment.glob("lib/python3*/site-packages")
    packages = to / original.relative_to(environment)
    packages.mkdir()
    own = {module.partition(".")[0] for module in changed}
    for entry in original.iterdir():
        if entry.name in own:
            shutil.copytree(entry, packages / entry.name, copy_function=os.link)
        else:
            (packages / entry.name).symlink_to(entry)
    for module in changed:
        path = packages / f"{module.replace('.', '/')}.py"
        source = path.read_bytes()
        path.unlink()  # the original has the same file
        path.write_bytes(source + b"\n# as if it had changed\n")
    return to


@dataclass(frozen=True)
class Other:
    """Umbel in a copy of this environment, with a Flower that has changed."""

    home: Home
    python: Path

    def umbel(self, *words: str) -> Said:
        """Run `umbel …` there."""
        return self.home.call(str(self.python), "-m", "umbel.cli.main", *words)


@pytest.fixture(params=CHANGES)
def changed(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return CHANGES[request.param]


@pytest.fixture
def other(changed: tuple[str, ...], exact_home: Home, make_home: MakeHome, tmp_path: Path) -> Other:
    """Copy this environment and that of the app, which is there after a first run."""
    start_counted(exact_home, "warm", 1, 3).completed()
    for environment in default_root(os.environ).glob("*/umbel.json"):
        target = copy(environment.parent, tmp_path / "apps" / environment.parent.name, changed)
        (target / USED).touch()
    home = make_home("other", **{PLACE: str(tmp_path / "apps")})
    python = copy(Path(sys.prefix), tmp_path / "venv", changed) / "bin" / "python"
    return Other(home, python)


@pytest.mark.timeout(240)
def test_with_another_flower_runs_work_and_the_doctor_names_what_moved(
    other: Other, changed: tuple[str, ...]
) -> None:
    home = other.home
    document = home.write("other", groups=[{"name": "local", "sites": 1}])
    other.umbel("up", "-f", str(document)).ok()
    home.until_ready("other")
    run = start_counted(home, "other", ROUNDS, 1)
    told = other.umbel("doctor", "-o", "json")
    assert (told.code, told.err) == (1, "")
    (differs,) = [f["fact"] for f in told.data if f["name"] == "FlowerDiffers"]
    closed = {way for way in Way if set(TOUCHED[way]) & set(changed)}
    if changed == EVERYTHING:
        assert closed == set(Way)
        assert "and " in differs
    else:
        assert {way for way in Way if f"instead of {way}" in differs} == closed
        assert changed[0] in differs
    finish(run)


def finish(run: Counted) -> None:
    """Wait for the end, and count."""
    run.completed(timeout_s=180)
    assert_all_counted(run.log, ROUNDS, 1)
    assert list(run.executions().values()) == [list(range(1, ROUNDS + 1))]
