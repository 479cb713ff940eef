"""Whatever is killed, the federation goes on or comes back, and nobody has to do anything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Home

HEALED_S = 120.0  # Flower refuses a killed SuperNode for up to 60 s


def test_a_killed_daemon_is_back_and_no_unit_was_touched(lab: Home) -> None:
    before = lab.units("lab") | {f"other {k}": v for k, v in lab.units("other").items()}
    daemon = lab.pid_of("daemon")
    lab.kill(daemon)
    assert lab.until(lambda: lab.pid_of("daemon"), "the nursery starts the daemon") != daemon
    lab.until_ready("lab")
    lab.umbel("status", "-n", "lab").ok()
    after = lab.units("lab") | {f"other {k}": v for k, v in lab.units("other").items()}
    assert after == before


def test_a_command_after_a_killed_daemon_does_not_notice(lab: Home) -> None:
    lab.kill(lab.pid_of("daemon"))
    said = lab.umbel("status", "-n", "lab").ok()
    assert re.search(r"phase +Ready", said.out)


def test_a_killed_gate_is_back_and_the_run_in_progress_survives(
    lab: Home, patient: tuple[Path, Path]
) -> None:
    app, released = patient
    run_id = lab.submit(app, "-c", "num-server-rounds=1", name="lab")
    lab.until(lambda: len(lab.tasks(run_id)) == 2, "the ServerApp and the ClientApp are at work")
    before = lab.units("lab")
    lab.kill(before["hub/gate"])
    lab.until(lambda: lab.units("lab").get("hub/gate"), "the gate is back")
    released.touch()
    ended = lab.until_over(run_id, "lab")
    assert (ended["status"], ended["rounds_done"]) == ("completed", 1)
    after = lab.units("lab")
    assert after.pop("hub/gate") != before.pop("hub/gate")
    assert after == before


def test_a_killed_superlink_is_back_and_the_next_run_works(lab: Home) -> None:
    before = lab.status("lab")["sites"][0]["node_id"]
    gone = lab.units("lab")["hub/superlink"]
    lab.kill(gone)
    back = lab.until(lambda: lab.units("lab").get("hub/superlink"), "the SuperLink is back")
    assert back != gone
    assert lab.until_ready("lab")["sites"][0]["node_id"] == before
    run_id = lab.submit("message_numpy", "-c", "num-server-rounds=1", name="lab")
    assert lab.until_over(run_id, "lab")["status"] == "completed"


def test_a_killed_executor_is_back_and_the_next_run_works(lab: Home) -> None:
    for name in ("hub/server-exec", "local-1/client-exec"):
        lab.kill(lab.units("lab")[name])
    lab.until_ready("lab")
    run_id = lab.submit("message_numpy", "-c", "num-server-rounds=1", name="lab")
    assert lab.until_over(run_id, "lab")["status"] == "completed"


def test_a_killed_nursery_is_back_and_nobody_has_to_do_anything(lab: Home) -> None:
    gone = lab.pid_of("nursery")
    lab.kill(gone)
    lab.umbel("status", "-n", "lab").ok()
    assert lab.until(lambda: lab.pid_of("nursery"), "the nursery is back") != gone
    lab.umbel("runs", "-n", "lab").ok()


@pytest.mark.timeout(240)
def test_a_killed_nursery_ends_nobody_and_a_supernode_killed_later_is_online_again(
    lab: Home,
) -> None:
    name, before = "local-1/supernode", lab.units("lab")
    node_id = lab.status("lab")["sites"][0]["node_id"]
    lab.kill(lab.pid_of("nursery"))
    assert lab.units("lab") == before
    lab.kill(before[name])

    def back() -> bool:
        online = [s["state"] for s in (lab.status("lab") or {}).get("sites", [])] == ["online"]
        return online and lab.units("lab").get(name, 0) not in (0, before[name])

    lab.until(back, "the site is online with a new SuperNode", HEALED_S)
    assert lab.until_ready("lab")["sites"][0]["node_id"] == node_id
    after = lab.units("lab")
    assert {unit for unit in after if after[unit] != before[unit]} == {name}
    run_id = lab.submit("message_numpy", "-c", "num-server-rounds=1", name="lab")
    assert lab.until_over(run_id, "lab")["status"] == "completed"
