"""Whatever is killed, the federation goes on or comes back, and nobody has to do anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Home, MakeHome

HEALED_S = 120.0  # Flower refuses a killed SuperNode for up to 60 s


@dataclass
class Wounded:
    """A federation that lost its nursery and then a SuperNode, some time ago."""

    home: Home
    node_id: str
    units: dict[str, int]


@pytest.fixture(scope="session", autouse=True)
def wounded(make_home: MakeHome) -> Wounded:
    """Wound it before anything else runs: healing takes a minute, in which others may work."""
    home: Home = make_home("wounded")
    home.umbel("up", "-f", str(home.write("hurt", groups=[{"name": "local", "sites": 1}]))).ok()
    before = home.status("hurt")["sites"][0]["node_id"]
    home.kill(home.pid_of("nursery"))
    units = home.units("hurt")
    home.kill(units["local-1/supernode"])
    return Wounded(home, before, units)


def test_a_killed_daemon_is_back_and_no_unit_was_touched(lab: Home) -> None:
    before = lab.units("lab") | {f"other {k}": v for k, v in lab.units("other").items()}
    daemon = lab.pid_of("daemon")
    lab.kill(daemon)
    assert lab.until(lambda: lab.pid_of("daemon"), "the nursery starts the daemon") != daemon
    lab.until_ready("lab")
    assert lab.umbel("status", "-n", "lab").ok()
    after = lab.units("lab") | {f"other {k}": v for k, v in lab.units("other").items()}
    assert after == before


def test_a_command_after_a_killed_daemon_does_not_notice(lab: Home) -> None:
    lab.kill(lab.pid_of("daemon"))
    said = lab.umbel("status", "-n", "lab").ok()
    assert re.search(r"phase +Ready", said.out)


def test_a_killed_gate_is_back_and_the_run_in_progress_survives(lab: Home) -> None:
    run_id = lab.submit("message_numpy", "-c", "num-server-rounds=4", name="lab")

    def rounds_done() -> bool:
        return bool(lab.ask(f"/v1/federations/lab/runs/{run_id}")["rounds_done"])

    lab.until(rounds_done, "a round is over")
    before = lab.units("lab")
    lab.kill(before["hub/gate"])
    lab.until(lambda: lab.units("lab").get("hub/gate"), "the gate is back")
    ended = lab.until_over(run_id, "lab")
    assert (ended["status"], ended["rounds_done"]) == ("completed", 4)
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


@pytest.mark.timeout(240)
def test_a_killed_supernode_is_online_again_though_the_nursery_was_killed_before(
    wounded: Wounded,
) -> None:
    home = wounded.home
    status = home.until_ready("hurt", HEALED_S)
    assert status["sites"][0]["node_id"] == wounded.node_id
    after = home.units("hurt")
    assert after.pop("local-1/supernode") != wounded.units.pop("local-1/supernode")
    assert after == wounded.units
    run_id = home.submit("message_numpy", "-c", "num-server-rounds=1", name="hurt")
    assert home.until_over(run_id, "hurt")["status"] == "completed"
