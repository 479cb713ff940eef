from __future__ import annotations

import json
from pathlib import Path

from umbel.exec import child
from umbel.exec.settings import ExecSettings, from_json, run_folder
from umbel.flower.tasks import Task

SETTINGS = ExecSettings(
    site="local-1",
    address="127.0.0.1:9094",
    ca=Path("/ca.crt"),
    secret=Path("/exec.secret"),
    flower_home=Path("/flower"),
    runs=Path("/runs"),
    tasks=Path("/tasks"),
    wake=Path("/wake"),
    warm=False,
    poll_s=0.5,
    task_timeout_s=60,
)
TASK = Task(1, 2, "flwr-clientapp", "f" * 256)


def test_settings_and_task_survive_the_way_to_a_fresh_process() -> None:
    order = json.loads(child.to_pipe(SETTINGS, TASK))
    assert from_json(order["settings"]) == SETTINGS
    assert Task(**order["task"]) == TASK


def test_a_task_that_is_printed_does_not_show_its_token() -> None:
    assert repr(TASK) == "Task(1, run 2, flwr-clientapp)"
    assert f"{TASK}" == repr(TASK)


def test_each_run_has_a_folder_of_its_own() -> None:
    assert run_folder(SETTINGS, 2) == Path("/runs/2")
