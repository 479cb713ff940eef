"""A build that is killed leaves nothing half, and the next one goes on where it stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from testbed import build
from testbed.programs import KUBECONFORM
from tests.clusters.conftest import why_not

pytestmark = pytest.mark.timeout(600)
ENOUGH = 100  # packages that are compiled when it is killed
UNDER_WAY = 8  # packages that were begun then, and are begun again
SMALL = """\
from testbed import build, programs
programs.UPSTREAMS = (programs.KUBECONFORM,)
build.build(lambda name, word: print(name, word, flush=True))
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """An empty cache; where nothing can be built, the test is skipped with the reason."""
    if reason := why_not(build.find_go):
        pytest.skip(reason)
    return tmp_path / "umbel" / "testbed"


def started(cache: Path) -> subprocess.Popen[str]:
    """Start the build of the smallest upstream, in a process group of its own."""
    home = str(cache.parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", SMALL],
        env={
            **os.environ,
            "XDG_CACHE_HOME": home,
            "PYTHONPATH": str(Path(build.__file__).parents[1]),
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def count(line: str) -> int:
    """Read how many packages the compiler has begun; 0 if the line is about something else."""
    words = line.split()
    return int(words[1]) if words[0] == "kubeconform" and words[1].isdigit() else 0


def test_a_killed_build_goes_on_where_it_stopped(cache: Path) -> None:
    with started(cache) as first:
        assert first.stdout is not None
        assert any(count(line) >= ENOUGH for line in first.stdout)
        os.killpg(first.pid, signal.SIGKILL)
    assert not list(cache.rglob("kubeconform*/kubeconform"))
    packages = whole(cache)
    with started(cache) as second:
        said = second.communicate()[0].splitlines()
    assert second.returncode == 0
    (program,) = cache.rglob("kubeconform*/kubeconform")
    subprocess.run([program, "-v"], check=True, capture_output=True)
    assert not list(cache.rglob(f"{build.HALF}*"))
    assert max(map(count, said)) <= packages - ENOUGH + UNDER_WAY


def whole(cache: Path) -> int:
    """Count the packages of the whole program, from the modules that are there already."""
    argv = [build.find_go(), "list", "-deps", *KUBECONFORM.packages.values()]
    modules = {"GOMODCACHE": str(cache / "go" / "modules"), "GOFLAGS": "-mod=readonly -modcacherw"}
    settings = {**os.environ, **modules, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    said = subprocess.run(
        argv, cwd=KUBECONFORM.folder, env=settings, capture_output=True, text=True, check=True
    )
    return len(said.stdout.split())
