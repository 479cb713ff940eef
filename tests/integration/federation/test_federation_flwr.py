"""Flower's own command works unchanged, through the gate, as far as the user's role goes."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Home, Said

APP = Path(__file__).parents[2] / "apps" / "message_numpy"
ONE_ROUND = ("--run-config", "num-server-rounds=1")
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


@dataclass(frozen=True)
class Person:
    """Somebody with a FLWR_HOME that `umbel connect` wrote."""

    home: Home
    folder: Path

    def flwr(self, *words: str) -> Said:
        """Run Flower's command."""
        return self.home.call("flwr", *words, env={**QUIET, "FLWR_HOME": str(self.folder)})

    def runs(self) -> list[dict[str, Any]]:
        found = json.loads(self.flwr("ls", "lab", "--format", "json").ok().out)
        assert found["success"] is True
        runs: list[dict[str, Any]] = found["runs"]
        return runs


def connect(lab: Home, folder: Path, user: str) -> Person:
    lab.umbel("connect", str(folder), "--user", user, "-n", "lab").ok()
    return Person(lab, folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flwr")


@pytest.fixture(scope="module")
def operator(lab: Home, folders: Path) -> Person:
    return connect(lab, folders / "ada", "ada")


def test_connect_writes_a_private_flwr_home(operator: Person) -> None:
    assert S_IMODE(operator.folder.stat().st_mode) == 0o700
    modes = {path.name: S_IMODE(path.stat().st_mode) for path in operator.folder.iterdir()}
    assert modes == {"config.toml": 0o600, "credentials.yaml": 0o600, "lab.crt": 0o600}


def test_an_operator_runs_an_app_and_sees_its_log(operator: Person) -> None:
    said = operator.flwr("run", str(APP), "lab", *ONE_ROUND, "--stream").ok()
    run_id = re.findall(r"(?:run|Run ID)\D*(\d{6,})", said.out)[0]
    assert "[ROUND 1/1]" in said.out
    listed = next(run for run in operator.runs() if str(run["run-id"]) == run_id)
    assert listed["status"] == "finished:completed"
    assert "[ROUND 1/1]" in operator.flwr("log", run_id, "lab", "--show").ok().out
    seen = operator.home.ask(f"/v1/federations/lab/runs/{run_id}")
    assert (seen["status"], seen["rounds_done"]) == ("completed", 1)
    mine = [call for call in audited(operator.home) if call["who"] == "user:ada"]
    done = {(call["what"], call["status"]) for call in mine}
    assert {("control/start-run", 200), ("control/list-runs", 200)} <= done


@pytest.mark.long
def test_what_flower_stops_ends_at_the_sites_too_and_the_next_run_has_its_turn(
    operator: Person,
) -> None:
    """Nobody tells the sites: their SuperNodes ask whether anybody waits for the reply."""
    lab = operator.home
    run_id = lab.submit("hang", name="lab")
    lab.until(lambda: lab.tasks(run_id), "the ClientApps are at work")
    operator.flwr("stop", run_id, "lab").ok()
    again = lab.submit("message_numpy", "-c", "num-server-rounds=1", name="lab")
    assert lab.until_over(again, "lab")["status"] == "completed"
    lab.until(lambda: not lab.tasks(run_id), "the ClientApps are gone")


def test_an_operator_stops_a_run(operator: Person) -> None:
    many = ("--run-config", "num-server-rounds=500")
    said = operator.flwr("run", str(APP), "lab", *many, "--format", "json").ok()
    run_id = str(json.loads(said.out)["run-id"])
    operator.flwr("stop", run_id, "lab").ok()
    assert operator.home.until_over(run_id, "lab")["status"] == "stopped"


def test_a_viewer_may_look_but_not_run(lab: Home, folders: Path) -> None:
    viewer = connect(lab, folders / "vic", "vic")
    before = len(viewer.runs())
    assert viewer.flwr("run", str(APP), "lab", *ONE_ROUND).code != 0
    assert len(lab.ask("/v1/federations/lab/runs")) == before
    refused = [call for call in audited(lab) if call["who"] == "user:vic" and call["status"] == 403]
    assert [call["what"] for call in refused] == ["control/start-run"]


def test_a_wrong_token_is_refused_and_nothing_is_told(lab: Home, folders: Path) -> None:
    stranger = connect(lab, folders / "eve", "vic")
    path = stranger.folder / "credentials.yaml"
    kept = yaml.safe_load(path.read_text())
    wrong = base64.b64encode(b"umbel_" + b"A" * 43).decode()
    path.write_text(yaml.safe_dump({k: wrong if "token" in k else v for k, v in kept.items()}))
    said = stranger.flwr("ls", "lab")
    assert said.code != 0
    assert "message-numpy" not in said.out + said.err


def audited(home: Home) -> list[dict[str, Any]]:
    """Read who did what."""
    lines = (home.folder("lab") / "hub" / "audit.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_an_unknown_user_is_told_with_those_that_are_there(lab: Home, tmp_path: Path) -> None:
    said = lab.umbel("connect", str(tmp_path / "x"), "--user", "nobody", "-n", "lab")
    said.refused(2, "U315")
    assert "ada, owner, vic" in said.err
    assert not (tmp_path / "x").exists()
