from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.integration.desk.conftest import APPS, LAB, until

from umbel.apps import quickstart
from umbel.errors import Relayed, UmbelError
from umbel.gate.refusals import HubUnreachable, HubUntrusted, RoleTooSmall, TokenRefused
from umbel.identity import alone
from umbel.remote import Remote, RemoteClient

if TYPE_CHECKING:
    from tests.integration.desk.conftest import Hub
    from tests.integration.federation.conftest import Home

# Flower builds apps with a name of another package that is going away.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the quickstart app."""
    folder = tmp_path_factory.mktemp("apps") / "quickstart"
    quickstart.write(folder)
    return folder


def rounds(events: list[dict[str, Any]]) -> list[int]:
    return [event["round"] for event in events if event["kind"] == "round-ended"]


def test_an_app_is_sent_followed_and_its_model_pulled(hub: Hub, app: Path, tmp_path: Path) -> None:
    client = hub.client("omar")
    assert client.federations() == [{"metadata": {"name": LAB}}]
    run = client.run(LAB, app, {"num-server-rounds": 3})
    assert run["app"].startswith("umbel/quickstart==")
    events = list(client.events(LAB, run["run_id"]))
    assert rounds(events) == [0, 1, 2, 3]
    assert (events[-1]["kind"], events[-1]["status"]) == ("status", "completed")
    written = client.pull(LAB, run["run_id"], tmp_path / "out")
    assert {path.name for path in written} >= {"model.npz", "metrics.json", "log.txt"}
    with np.load(tmp_path / "out" / "model.npz") as model:
        assert model.files
    source = hub.root / "hub" / "runs" / run["run_id"]
    for path in written:
        assert path.read_bytes() == (source / path.relative_to(tmp_path / "out")).read_bytes()
    assert not list((tmp_path / "out").glob(".*"))
    logged = "\n".join(
        item["line"] for item in client.logs(LAB, run["run_id"], site="", follow=True)
    )
    assert "Strategy execution finished" in logged or "FedAvg" in logged
    found = client.get_run(LAB, run["run_id"][:12])
    assert (found["status"], found["rounds_done"]) == ("completed", 3)
    assert client.rounds(LAB) == {"active_runs": 0, "in_round": False}


def test_the_commands_know_a_federation_elsewhere(hub: Hub, app: Path, new_home: Home) -> None:
    remote = hub.remote("omar")
    words = ("--ca", str(remote.ca), "--token-file", str(remote.token_file))
    new_home.umbel("connect", "far", "--address", remote.address, *words).ok()
    run = new_home.umbel("run", str(app), "-c", "num-server-rounds=1", "-o", "json").ok().data
    assert (run["status"], run["rounds_done"]) == ("completed", 1)
    for named in ((), ("-n", "far")):
        runs = new_home.umbel("runs", "-o", "json", *named).ok().data
        assert runs[0]["run_id"] == run["run_id"]
    status = new_home.umbel("status", "-n", "far", "-o", "json")
    assert status.data["name"] == LAB
    assert "ROUND" in new_home.umbel("status", "-n", "far").out
    pulled = new_home.umbel("pull", run["run_id"], "out", "-o", "json").ok().data
    assert "out/model.npz" in pulled
    assert new_home.umbel("logs", run["run_id"]).ok().out
    stopped = new_home.umbel("stop", run["run_id"], "-o", "json").ok().data
    assert stopped["status"] == "completed"
    new_home.umbel("logs", "0").refused(2, "U324")
    new_home.umbel("runs", "-n", "near").refused(2, "U321")
    folder = new_home.path.parent / "flwr-home"
    new_home.umbel("connect", str(folder), "-n", "far").ok()
    listed = new_home.call("flwr", "ls", LAB, "--format", "json", env={"FLWR_HOME": str(folder)})
    assert run["run_id"] in listed.ok().out


def test_an_app_that_is_none_is_told_here_and_there(hub: Hub, tmp_path: Path) -> None:
    client = hub.client("omar")
    with pytest.raises(UmbelError, match="U311"):
        client.run(LAB, tmp_path, {})
    order = json.dumps({"fab": "bm8gemlw", "config": {}})
    with pytest.raises(Relayed, match="U311 the uploaded bundle"):
        client._call("POST", f"/v1/federations/{LAB}/runs", order)
    with pytest.raises(Relayed, match="U321"):
        client.runs("other")


def test_a_viewer_looks_and_starts_nothing(hub: Hub, app: Path) -> None:
    viewer = hub.client("vic")
    before = viewer.runs(LAB)
    with pytest.raises(RoleTooSmall, match="operator"):
        viewer.run(LAB, app, {})
    with pytest.raises(RoleTooSmall, match="operator"):
        viewer.stop(LAB, "1")
    with pytest.raises(RoleTooSmall, match="admin"):
        hub.client("omar").put_sites(LAB, {})
    assert len(viewer.runs(LAB)) >= len(before)
    assert viewer.status(LAB)["name"] == LAB
    refused = [line for line in hub.audit() if line.get("status") == 403]
    assert {line["what"] for line in refused} >= {"desk/start", "desk/stop", "desk/sites"}


def test_who_may_not_start_is_told_so_before_all_of_a_large_app_is_sent(hub: Hub) -> None:
    order = json.dumps({"fab": "A" * (12 << 20), "config": {}})
    with pytest.raises(RoleTooSmall, match="operator"):
        hub.client("vic")._call("POST", f"/v1/federations/{LAB}/runs", order)


def test_a_stranger_gets_nothing(hub: Hub, app: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("umbel_" + "x" * 43)
    stranger = RemoteClient(Remote(hub.address, hub.remote().ca, token))
    for ask in (
        stranger.federations,
        lambda: stranger.status(LAB),
        lambda: stranger.run(LAB, app, {}),
        lambda: list(stranger.events(LAB, "1")),
        lambda: stranger.put_sites(LAB, {}),
        lambda: stranger.files(LAB, "../../etc"),
    ):
        with pytest.raises(TokenRefused):
            ask()


def test_another_authority_is_not_trusted_and_sees_no_token(
    hub: Hub, new_home: Home, tmp_path: Path
) -> None:
    ca = alone.ensure(tmp_path / "ca", "other", ["127.0.0.1"], now=datetime.now(UTC)).ca
    remote = Remote(hub.address, ca, hub.remote().token_file)
    with pytest.raises(HubUntrusted):
        RemoteClient(remote).federations()
    words = ("--ca", str(ca), "--token-file", str(remote.token_file))
    new_home.umbel("connect", "far", "--address", hub.address, *words).refused(2, "U350")
    assert not (new_home.path / "connections").exists()


def test_nobody_there_is_told(hub: Hub, new_home: Home) -> None:
    remote = hub.remote()
    with pytest.raises(HubUnreachable, match="refused"):
        RemoteClient(Remote("127.0.0.1:9", remote.ca, remote.token_file)).federations()
    words = ("--ca", str(remote.ca), "--token-file", str(remote.token_file))
    new_home.umbel("connect", "far", "--address", "127.0.0.1:9", *words).refused(1, "U248")


def test_who_follows_survives_the_death_of_the_desk(hub: Hub, patient: tuple[Path, Path]) -> None:
    folder, released = patient
    client = hub.client("omar")
    run_id = client.run(LAB, folder, {"num-server-rounds": 2})["run_id"]
    events = client.events(LAB, run_id)
    first = next(events)
    assert first["kind"] == "status"
    until(lambda: client.rounds(LAB)["in_round"], "a round is under way")
    hub.desk.kill()
    released.touch()
    hub.desk.start()
    rest = list(events)
    assert rounds(rest)[-1] == 2
    assert len(rounds(rest)) == len(set(rounds(rest)))
    assert rest[-1]["status"] == "completed"


def test_a_run_that_hangs_is_stopped_and_its_serverapp_ends(hub: Hub) -> None:
    client = hub.client("omar")
    run_id = client.run(LAB, APPS / "hang", {})["run_id"]

    def at_the_hub() -> bool:
        return any("/hub/runs/" in task.log for task in hub.home.tasks(run_id))

    until(at_the_hub, "the ServerApp runs")
    assert client.stop(LAB, run_id)["status"] == "stopped"
    assert client.stop(LAB, run_id)["status"] == "stopped"
    until(lambda: not at_the_hub(), "the ServerApp is gone")
    hub.home.umbel("stop", run_id, "-n", LAB).ok()  # ends what hangs at the sites of this machine
