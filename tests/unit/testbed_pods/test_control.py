from __future__ import annotations

from pathlib import Path

from testbed.commands import Command
from testbed.pods import control


def test_a_flag_that_is_set_again_is_there_once() -> None:
    argv = ["prog", "--authorization-mode=RBAC", "--port=1"]
    said = control.with_flags(argv, ["--authorization-mode=Node,RBAC"])
    assert said == ["prog", "--port=1", "--authorization-mode=Node,RBAC"]


def test_nodes_bring_back_what_clusters_without_pods_switch_off() -> None:
    argv = ["prog", "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"]
    assert control.apiserver(Command("a", argv), ["--x=1"]).argv == ["prog", "--x=1"]


def test_every_controller_runs_with_nodes() -> None:
    said = control.controllers(Command("c", ["prog", "--controllers=a,b"])).argv
    assert said == ["prog", control.EVERY_CONTROLLER]


def test_a_scheduler_listens_on_loopback_only() -> None:
    command = control.scheduler("hub", Path("/p"), Path("/k"), 7)
    assert command.name == "hub-scheduler"
    assert "--bind-address=127.0.0.1" in command.argv
