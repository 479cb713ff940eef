"""The first process of a container: answers the kubelet, passes signals on, buries the dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from umbel.agent.pod.places import Places

SCRIPT = """
import sys
from pathlib import Path
from umbel.agent.pod import places, warden
places.HEALTH_PORTS["exec"] = 0
role, root, *command = sys.argv[1:]
listen = warden.socket.create_server
def told(*args, **kwargs):
    made = listen(*args, **kwargs)
    print(made.getsockname()[1], flush=True)
    return made
warden.socket.create_server = told
sys.exit(warden.Warden(role, places.Places(Path(root)), command).run())
"""


class Container:
    """A warden with a program of the test's own."""

    def __init__(self, root: Path, program: str) -> None:
        command = [sys.executable, "-c", program]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, "exec", str(root), *command],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def asks(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
def containers() -> Iterator[list[Container]]:
    made: list[Container] = []
    yield made
    for one in made:
        one.process.terminate()  # killed, it would leave its program behind
        one.process.wait(20)
        assert one.process.stdout is not None
        one.process.stdout.close()


def start(containers: list[Container], root: Path, program: str) -> Container:
    containers.append(Container(root, program))
    return containers[-1]


WAITS = "import signal; print('runs', flush=True); signal.pause()"


def test_it_is_alive_at_once_and_ready_when_its_program_is(
    containers: list[Container], tmp_path: Path
) -> None:
    one = start(containers, tmp_path, WAITS)
    assert one.line() == "runs"
    assert one.asks("/healthz") == 200
    assert one.asks("/readyz") == 503
    wake = Places(tmp_path).wake
    wake.parent.mkdir(parents=True)
    wake.touch()
    assert one.asks("/readyz") == 200


def test_the_container_ends_as_its_program_ends(
    containers: list[Container], tmp_path: Path
) -> None:
    one = start(containers, tmp_path, "raise SystemExit(7)")
    assert one.process.wait(20) == 7


def test_a_program_that_is_killed_says_so(containers: list[Container], tmp_path: Path) -> None:
    one = start(containers, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert one.process.wait(20) == 128 + signal.SIGKILL


def test_a_signal_reaches_the_program(containers: list[Container], tmp_path: Path) -> None:
    program = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print('runs', flush=True)
signal.pause()
"""
    one = start(containers, tmp_path, program)
    assert one.line() == "runs"
    os.kill(one.process.pid, signal.SIGTERM)
    assert one.process.wait(20) == 3


def test_a_signal_that_comes_too_early_reaches_the_program(tmp_path: Path) -> None:
    """A pod may be taken away while it starts."""
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "umbel.agent.pod.warden", "exec"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "UMBEL_POD_ROOT": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        until_imported(process.stderr, "select")  # it imports, long before it has a program
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(60) == 128 + signal.SIGTERM  # its program's end, not its own


def until_imported(lines: IO[str], module: str) -> None:
    for line in lines:
        if line.rpartition("|")[2].strip() == module:
            return
    pytest.fail(f"{module} was not imported")


def test_an_unknown_role_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "umbel.agent.pod.warden", "nobody"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "usage" in done.stderr
