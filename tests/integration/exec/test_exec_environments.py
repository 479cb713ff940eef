"""Environments are built by the real uv, from wheels that the test makes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.integration.exec.wheels import make_slow_source, make_wheel
from tests.integration.federation.conftest import until

from umbel.exec.builds import Builds
from umbel.exec.collection import UNUSED_S
from umbel.exec.environments import (
    USED,
    BuildFailed,
    Environments,
    Recipe,
    hold,
)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Give a folder of wheels: a Flower that is only a name, and two versions of a package."""
    folder = tmp_path / "wheels"
    make_wheel(folder, "flwr", "9.9")
    make_wheel(folder, "tiny", "1.0")
    make_wheel(folder, "tiny", "2.0")
    return folder


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    return Environments(tmp_path / "environments")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


def recipe(wheels: Path, *dependencies: str, key: str = "key") -> Recipe:
    return Recipe(key, dependencies, "9.9", wheels)


def build(environments: Environments, what: Recipe, log: Path) -> None:
    with log.open("ab") as file:
        environments.build(what, file)


def say(environments: Environments, key: str, code: str) -> str:
    """Run a line of code in the environment; gives what it prints."""
    python = str(environments.python(key))
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


def test_a_folder_of_wheels_is_all_that_a_build_needs(
    environments: Environments, wheels: Path, log: Path
) -> None:
    build(environments, recipe(wheels, "tiny<2"), log)
    assert environments.is_ready("key")
    assert say(environments, "key", "import tiny; print(tiny.VERSION)") == "1.0"
    lock = (environments.root / "locks" / "key.txt").read_text()
    assert "tiny==1.0" in lock
    assert "flwr==9.9" in lock
    assert lock.count("--hash=sha256:") == 2
    assert "tiny==1.0" in log.read_text()


def test_nothing_of_ours_can_be_seen_in_it(
    environments: Environments, wheels: Path, log: Path
) -> None:
    build(environments, recipe(wheels), log)
    assert "No module named 'pytest'" in say(environments, "key", "import pytest")
    assert "No module named 'umbel'" in say(environments, "key", "import umbel")


def test_two_versions_live_side_by_side(
    environments: Environments, wheels: Path, log: Path
) -> None:
    for version in ("1.0", "2.0"):
        build(environments, recipe(wheels, f"tiny=={version}", key=f"k{version}"), log)
    for version in ("1.0", "2.0"):
        assert say(environments, f"k{version}", "import tiny; print(tiny.VERSION)") == version


def test_a_rebuild_installs_what_the_lock_says_though_there_is_newer(
    environments: Environments, wheels: Path, log: Path
) -> None:
    build(environments, recipe(wheels, "tiny"), log)
    make_wheel(wheels, "tiny", "3.0")
    (environments.root / "key" / "umbel.json").unlink()  # as if it had never been whole
    build(environments, recipe(wheels, "tiny"), log)
    assert say(environments, "key", "import tiny; print(tiny.VERSION)") == "2.0"


def test_an_environment_whose_python_is_gone_is_built_again(
    environments: Environments, wheels: Path, log: Path
) -> None:
    build(environments, recipe(wheels, "tiny"), log)
    python = environments.python("key")
    python.unlink()
    python.symlink_to(wheels / "gone")
    assert not environments.is_ready("key")
    build(environments, recipe(wheels, "tiny"), log)
    assert say(environments, "key", "import tiny; print(tiny.VERSION)") == "2.0"


@pytest.mark.parametrize(
    ("dependencies", "words"),
    [
        (("nowhere-to-be-found",), "nowhere-to-be-found was not found"),
        (("tiny>=4",), "only tiny<=2.0 is available"),
        (("tiny==1.0", "tiny==2.0"), "unsatisfiable"),
        (("flwr<9",), "unsatisfiable"),
        (("not a dependency !",), "not a dependency"),
    ],
)
def test_what_does_not_resolve_is_told_in_the_resolvers_words(
    environments: Environments, wheels: Path, log: Path, dependencies: tuple[str, ...], words: str
) -> None:
    with pytest.raises(BuildFailed) as told:
        build(environments, recipe(wheels, *dependencies), log)
    assert words in " ".join(str(told.value).split())
    assert words in " ".join(log.read_text().split())
    assert not environments.is_ready("key")
    assert not (environments.root / "key").exists()


def test_a_killed_build_begins_again_and_leaves_nothing(
    environments: Environments, wheels: Path, log: Path
) -> None:
    make_slow_source(wheels)
    builds: Builds[str] = Builds(environments)
    builds.want(recipe(wheels, "slow"), log, "a task")
    begun = wheels / "begun"
    until(begun.exists, "the build goes on", 30)
    first = int(begun.read_text().split()[0])
    builder = next(iter(builds.fds()))
    signal.pidfd_send_signal(builder, signal.SIGKILL)
    assert builds.end("key") == (None, [])
    until(lambda: len(begun.read_text().split()) > 1, "it began again", 30)
    (wheels / "released").touch()
    until(lambda: environments.is_ready("key"), "it is built", 30)
    built, waiting = builds.end("key")
    assert built is not None
    assert (built.failed, waiting) == ("", ["a task"])
    assert say(environments, "key", "import slow; print(slow.VERSION)") == "1.0"
    assert list((environments.root / "building").iterdir()) == []
    until(lambda: not Path(f"/proc/{first}").exists(), "nothing of the first is left", 30)


def test_of_two_who_build_the_same_one_waits(
    environments: Environments, wheels: Path, log: Path
) -> None:
    make_slow_source(wheels)
    both = [
        threading.Thread(target=build, args=(environments, recipe(wheels, "slow"), log))
        for _ in range(2)
    ]
    for one in both:
        one.start()
    until((wheels / "begun").exists, "one builds", 30)
    (wheels / "released").touch()
    for one in both:
        one.join(30)
    assert environments.is_ready("key")
    assert log.read_text().count("+ slow==1.0") == 1


def test_what_is_old_is_collected_but_nothing_that_is_used(
    environments: Environments, wheels: Path, log: Path
) -> None:
    for key in ("old", "held", "new"):
        build(environments, recipe(wheels, key=key), log)
    long_ago = time.time() - UNUSED_S - 60
    for key in ("old", "held"):
        os.utime(environments.root / key / USED, (long_ago, long_ago))
    lock = hold(environments.root / "held")
    try:
        assert environments.collect() == ["old"]
    finally:
        os.close(lock)
    assert [environments.is_ready(key) for key in ("old", "held", "new")] == [False, True, True]
    assert not (environments.root / "old").exists()
    environments.touch("held")
    assert environments.collect() == []
