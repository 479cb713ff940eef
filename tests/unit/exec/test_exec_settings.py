from __future__ import annotations

import json
from pathlib import Path

from umbel.exec import link
from umbel.exec.limits import Share
from umbel.exec.link import Order
from umbel.exec.settings import ExecSettings, from_json, run_folder, to_json
from umbel.flower.tasks import Task

SETTINGS = ExecSettings(
    nursery=Path("/nursery.sock"),
    parents=Path("/parents"),
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
    per_task=Share(1.5, 64, 1),
    has=Share(4, 0, 2),
    wheels=Path("/wheels"),
)
TASK = Task(1, 2, "flwr-clientapp", "f" * 256)


def test_settings_and_task_survive_the_way_to_a_fresh_process() -> None:
    order = Order(SETTINGS, TASK, ("numpy", "sklearn.svm"), ("mine",), True, ("1",), b"\0input")
    assert link.unpack_order(*link.read(order.pack())) == order


def test_settings_survive_the_way_through_json() -> None:
    assert from_json(json.loads(json.dumps(to_json(SETTINGS)))) == SETTINGS


def test_a_task_that_is_printed_does_not_show_its_token() -> None:
    assert repr(TASK) == "Task(1, run 2, flwr-clientapp)"
    assert f"{TASK}" == repr(TASK)


def test_each_run_has_a_folder_of_its_own() -> None:
    assert run_folder(SETTINGS, 2) == Path("/runs/2")
