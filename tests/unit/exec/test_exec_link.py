from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from umbel.exec import link, notes
from umbel.exec.environments import default_root, identity_of
from umbel.exec.frameworks import named
from umbel.exec.link import Inbox
from umbel.exec.parents import IDLE_S, idle
from umbel.exec.warm import settle
from umbel.flower.tasks import Task

heads = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=4)


@given(st.lists(heads, max_size=5), st.integers(1, 40))
def test_messages_come_out_whole_however_they_are_cut(
    sent: list[dict[str, Any]], size: int
) -> None:
    stream = b"".join(link.pack(head, b"body") for head in sent)
    inbox = Inbox()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [head for piece in pieces for head in inbox.take(piece)] == sent


def test_the_next_executor_finds_the_tasks_that_died_with_the_last(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    running, waiting, done = (Task(n, 7, "flwr-clientapp", "secret") for n in (1, 2, 3))
    notes.write_waiting(folder, running)
    notes.write_waiting(folder, waiting)
    notes.write_running(folder, running, 4001)
    notes.write_running(folder, done, 4002)
    notes.remove(folder, done, 4002)
    assert (folder / "4001").stat().st_mode & 0o777 == 0o600
    assert notes.left_behind(folder) == [running, waiting]
    assert list(folder.iterdir()) == []


def test_a_note_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "77").write_text("{")
    (tmp_path / "78").write_text("[]")
    assert notes.left_behind(tmp_path) == []


def test_environments_are_the_users_unless_said_otherwise() -> None:
    home = {"HOME": "/home/ada"}
    assert default_root(home) == Path("/home/ada/.cache/umbel/environments")
    assert default_root({**home, "XDG_CACHE_HOME": "/c"}) == Path("/c/umbel/environments")
    assert default_root({**home, "XDG_CACHE_HOME": "c"}) == default_root(home)
    assert default_root({**home, "UMBEL_ENVIRONMENTS": "/e"}) == Path("/e")


def test_a_folder_of_wheels_is_another_when_a_wheel_is(tmp_path: Path) -> None:
    assert identity_of(None) == ""
    empty = identity_of(tmp_path)
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"1")
    one = identity_of(tmp_path)
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"22")
    assert len({empty, one, identity_of(tmp_path), identity_of(tmp_path / "gone")}) == 4


def test_what_a_distribution_installs_is_known_by_what_can_be_imported() -> None:
    files = ["six.py", "sklearn/base.py", "_pytest/x.py", "a-1.dist-info/RECORD", "../../bin/tool"]
    assert named(files) == {"six", "sklearn"}
    assert named(["torch", "functorch", "_C"]) == {"torch", "functorch"}


def test_what_tasks_start_finds_the_apps_environment_and_not_ours() -> None:
    env = {"PATH": "/ours/bin:/usr/bin", "PYTHONPATH": "/ours", "PYTHONHOME": "/o", "LANG": "C"}
    settle(env, "/app")
    assert env == {"PATH": "/app/bin:/ours/bin:/usr/bin", "VIRTUAL_ENV": "/app", "LANG": "C"}


def test_a_parent_without_tasks_for_long_is_let_go() -> None:
    used_s = {"old": 0.0, "busy": 0.0, "new": 500.0}
    assert idle(used_s, {"busy"}, IDLE_S + 1) == ["old"]
    assert idle(used_s, {"busy"}, IDLE_S - 1) == []
