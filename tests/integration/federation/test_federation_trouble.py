"""What is wrong is said in words with a code, and nothing is left half done."""

from __future__ import annotations

import os
import pty
import resource
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Home

HEAD = "apiVersion: umbel.dev/v1alpha1\nkind: Federation\n"
BAD = {
    "empty": ("", ""),
    "not yaml": ("a: [1\n", ""),
    "a tab": (f"{HEAD}metadata:\n\tname: x\n", ""),
    "unknown key": (f"{HEAD}metadata: {{name: x}}\nspec: {{gruops: []}}\n", "groups"),
    "duplicate group": (
        f"{HEAD}metadata: {{name: x}}\nspec: {{groups: [{{name: a}}, {{name: a}}]}}\n",
        "a",
    ),
    "number out of range": (
        f"{HEAD}metadata: {{name: x}}\nspec: {{groups: [{{name: a, sites: 100000}}]}}\n",
        "1000",
    ),
    "another kind": ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "Federation"),
    "a target of tomorrow": (
        f"{HEAD}metadata: {{name: x}}\nspec: {{groups: [{{name: a, on: join}}]}}\n",
        "join",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", ["up", "plan"])
def test_a_bad_document_is_refused_and_nothing_is_started(
    new_home: Home, tmp_path: Path, command: str, case: str
) -> None:
    text, word = BAD[case]
    document = tmp_path / "federation.yaml"
    document.write_text(text)
    said = new_home.umbel(command, "-f", str(document))
    assert said.code == 2
    assert "error[U" in said.err
    assert word in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    new_home.until(lambda: new_home.processes() == [], "nothing runs", 10)


def test_a_document_that_is_not_there_is_told(new_home: Home) -> None:
    for command in ("up", "plan"):
        said = new_home.umbel(command, "-f", "nowhere.yaml")
        assert said.code == 2
        assert "nowhere.yaml" in said.err
        assert "Traceback" not in said.err


def test_a_plan_where_nothing_runs_has_changes_and_leaves_no_trace(new_home: Home) -> None:
    said = new_home.umbel("plan")
    assert said.code == 10
    assert "9 changes" in said.err
    assert not new_home.path.exists()
    assert new_home.processes() == []


@pytest.mark.parametrize(
    "words", [("status",), ("runs",), ("run",), ("logs", "1"), ("stop", "1"), ("down",)]
)
def test_where_nothing_runs_each_command_says_so(new_home: Home, words: tuple[str, ...]) -> None:
    said = new_home.umbel(*words).refused(1, "U226")
    assert "umbel up starts one" in said.err
    assert not (new_home.path / "run").exists()


def test_a_declared_port_that_others_hold_is_refused_and_nothing_is_left(new_home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        document = new_home.write("x", superlink={"ports": {"control": port}})
        said = new_home.umbel("up", "-f", str(document))
    assert said.code == 2
    assert "error[U220]" in said.err
    assert f"port {port} (control)" in said.err
    assert "spec.superlink.ports.control" in said.err
    new_home.until(lambda: new_home.processes() == [], "nothing runs", 10)
    assert not (new_home.folder("x") / "ca").exists()


def test_a_home_that_is_a_file_is_told(new_home: Home) -> None:
    new_home.path.write_text("not a folder")
    said = new_home.umbel("up").refused(1, "U201")
    assert str(new_home.path) in said.err
    assert "UMBEL_HOME" in said.err
    assert new_home.path.read_text() == "not a folder"


def test_a_home_that_nobody_may_write_is_told(new_home: Home) -> None:
    """Not even root may make a folder in /sys."""
    said = new_home.umbel("up", env={"UMBEL_HOME": "/sys/umbel"}).refused(1, "U201")
    assert "/sys/umbel" in said.err
    assert "UMBEL_HOME" in said.err


def no_room() -> None:
    """Let the command, and what it starts, write no file at all."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_a_disk_without_room_is_told(new_home: Home) -> None:
    said = new_home.umbel("up", preexec_fn=no_room)
    assert said.code == 1
    assert "error[U2" in said.err
    assert "Traceback" not in said.err


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(("env", "coloured"), [({"NO_COLOR": "1"}, False), ({}, True)])
def test_colour_is_for_terminals_that_want_it(
    shared: Home, terminal: tuple[int, int], env: dict[str, str], coloured: bool
) -> None:
    ours, theirs = terminal
    kept = {k: v for k, v in shared.env.items() if k != "NO_COLOR"}
    path = Path(shared.env["PATH"].partition(os.pathsep)[0]) / "umbel"
    done = subprocess.run(
        [path, "status"],
        env={**kept, "TERM": "xterm-256color", **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        check=False,
    )
    assert done.returncode == 0
    shown = os.read(ours, 1 << 16).decode()
    assert "Ready" in shown
    assert ("\x1b[" in shown) is coloured
