"""A person stops a run: everything that it started is gone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Home, Process


def children(home: Home, run_id: str) -> list[Process]:
    """Find the processes that the app itself started at the sites."""
    return [p for p in home.processes() if f"hang-child {run_id}" in p.command]


def test_stopping_ends_the_whole_process_tree(lab: Home) -> None:
    """Also a child that has left its parent's session. Doing it again changes nothing."""
    run_id = lab.submit("hang", "-c", "own-session=true", name="other")
    lab.until(lambda: children(lab, run_id), "the app has started its child")
    places = {process.log.partition("/runs/")[0] for process in lab.tasks(run_id)}
    assert len(places) == 2, "the ServerApp at the hub and the ClientApp at the site"
    for _ in range(2):
        said = lab.umbel("stop", run_id, "-n", "other").ok()
        assert said.err == f"run {run_id}: stopped\n"
        assert lab.tasks(run_id) == []
        assert children(lab, run_id) == []
    listed = lab.umbel("runs", "-n", "other", "-o", "json").ok().data
    assert {run["run_id"]: run["status"] for run in listed}[run_id] == "stopped"


def test_after_a_stop_the_next_run_works(lab: Home) -> None:
    """No SuperNode waits for the answer of a task that was ended."""
    run_id = lab.submit("hang", name="other")
    lab.until(lambda: children(lab, run_id), "the app has started its child")
    lab.umbel("stop", run_id, "-n", "other").ok()
    again = lab.submit("message_numpy", "-c", "num-server-rounds=1", name="other")
    assert lab.until_over(again, "other", 45)["status"] == "completed"


def test_ctrl_c_stops_the_run_when_asked_to(lab: Home) -> None:
    app = Path(__file__).parents[2] / "apps" / "hang"
    with lab.beside("umbel", "run", str(app), "--stop-on-exit", "-n", "other") as process:
        assert process.stderr is not None
        run_id = process.stderr.readline().split()[1]
        lab.until(lambda: lab.tasks(run_id), "the ServerApp is at work")
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130
    assert f"run {run_id}: stopped" in told
    assert lab.tasks(run_id) == []
