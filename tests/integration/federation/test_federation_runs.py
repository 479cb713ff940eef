"""A person runs apps: the quickstart, and apps of others that know nothing of Umbel."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Batch, Home


def metrics_of(home: Home, run_id: str) -> list[dict[str, Any]]:
    """Read the metrics that `umbel pull` would fetch."""
    text = (home.folder() / "hub" / "runs" / run_id / "metrics.json").read_text()
    found: list[dict[str, Any]] = json.loads(text)
    return found


def weights(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_the_quickstart_learns_and_its_model_can_be_fetched(shared: Home, tmp_path: Path) -> None:
    said = shared.umbel("run", "-c", "num-server-rounds=2").ok()
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[0] == ["ROUND", "LOSS", "ACCURACY", "NODES", "FAILED", "SECONDS"]
    accuracy = [float(row[2]) for row in rows[1:]]
    assert len(accuracy) == 3
    assert accuracy[0] < accuracy[1] < accuracy[2]
    assert accuracy[2] > 0.8
    assert [row[3:5] for row in rows[2:]] == [["3", "0"], ["3", "0"]]
    assert re.search(r"round 1/2 .*3 nodes", said.err)
    run_id = re.findall(r"run (\d+) completed after", said.err)[0]

    shared.umbel("pull", run_id, "results", cwd=tmp_path).ok()
    model = weights(tmp_path / "results" / "model.npz")
    assert model
    assert all(np.isfinite(array).all() for array in model.values())
    metrics = json.loads((tmp_path / "results" / "metrics.json").read_text())
    assert [entry["round"] for entry in metrics] == [0, 1, 2]

    listed = {run["run_id"]: run for run in shared.umbel("runs", "-o", "json").ok().data}
    assert listed[run_id]["status"] == "completed"
    assert (listed[run_id]["rounds_done"], listed[run_id]["rounds"]) == (2, 2)
    assert listed[run_id]["accuracy"] == pytest.approx(accuracy[2], abs=1e-4)
    shown = shared.umbel("runs").ok().out
    assert re.search(rf"{run_id} .* completed +2/2", shown)


@pytest.mark.parametrize("app", ["message_numpy", "legacy_numpy"])
def test_both_generations_of_apps_average_over_all_sites(
    shared: Home, batch: Batch, app: str
) -> None:
    ended = shared.until_over(batch.ids[app])
    assert (ended["status"], ended["rounds_done"], ended["rounds"]) == ("completed", 1, 1)
    expected = (2 * 3 + 1) / 3
    assert ended["accuracy"] == pytest.approx(expected / (1 + expected))
    model = weights(shared.folder() / "hub" / "runs" / batch.ids[app] / "model.npz")
    for array in model.values():
        assert array == pytest.approx(np.full(array.shape, expected))


def test_an_app_without_a_strategy_reaches_every_site(shared: Home, batch: Batch) -> None:
    """Followed with `-o json`: the run's last status is on stdout, and nothing else."""
    said = batch.said("grid_only").ok()
    assert (said.data["status"], said.data["rounds_done"]) == ("completed", 1)
    assert "submitted to local" in said.err
    logged = shared.umbel("logs", said.data["run_id"]).ok()
    assert "asked 3 nodes, 3 answered, mean=14.500" in logged.out


def test_an_apps_own_strategy_is_followed_and_its_own_files_are_fetched(
    shared: Home, batch: Batch, tmp_path: Path
) -> None:
    assert shared.until_over(batch.ids["custom_strategy"])["status"] == "completed"
    said = shared.umbel("pull", batch.ids["custom_strategy"], str(tmp_path), "-o", "json").ok()
    own = next(Path(path) for path in said.data if path.endswith("custom_strategy_model.npz"))
    kept = next(Path(path) for path in said.data if Path(path).name == "model.npz")
    for path in (own, kept):
        assert next(iter(weights(path).values())) == pytest.approx(np.full(4, 0.5))


def test_metrics_with_odd_names_and_values_do_no_harm(shared: Home, batch: Batch) -> None:
    ended = shared.until_over(batch.ids["metrics_odd"])
    assert (ended["status"], ended["rounds_done"]) == ("completed", 2)
    assert ended["loss"] is None
    names = metrics_of(shared, batch.ids["metrics_odd"])[1]["train"]
    assert names["größe_μ"] == pytest.approx(4.0)
    assert names["list[2]"] == pytest.approx(3.0)
    said = shared.umbel("runs").ok()
    assert "\x1b" not in said.out


def test_a_sites_memory_lasts_from_round_to_round(shared: Home, batch: Batch) -> None:
    assert shared.until_over(batch.ids["context_counter"])["status"] == "completed"
    rounds = metrics_of(shared, batch.ids["context_counter"])
    assert [(r["train"]["calls"], r["evaluate"]["calls"]) for r in rounds] == [(1, 2), (3, 4)]


def test_no_line_of_a_log_is_lost_at_the_hub_or_at_a_site(shared: Home, batch: Batch) -> None:
    assert shared.until_over(batch.ids["prints_a_lot"])["status"] == "completed"
    for side, words in (("server", ()), ("client", ("--site", "local-2"))):
        said = shared.umbel("logs", batch.ids["prints_a_lot"], *words).ok()
        lines = [line for line in said.out.splitlines() if line.startswith(f"{side} line")]
        assert lines == [f"{side} line {number:05d}" for number in range(3000)]
        assert said.err == ""


def test_logs_of_all_say_where_each_line_is_from(shared: Home, batch: Batch) -> None:
    run_id = batch.said("grid_only").data["run_id"]
    said = shared.umbel("logs", run_id, "--site", "all", "--follow").ok()
    assert {line.split()[0] for line in said.out.splitlines() if line.strip()} == {
        "hub",
        "local-1",
        "local-2",
        "local-3",
    }


def test_a_log_may_be_cut_by_who_reads_it(shared: Home, batch: Batch) -> None:
    shared.until_over(batch.ids["prints_a_lot"])
    with shared.beside("umbel", "logs", batch.ids["prints_a_lot"]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
    assert "Traceback" not in told
    assert "Exception" not in told


def test_a_crash_of_the_serverapp_is_shown_with_its_traceback(batch: Batch) -> None:
    said = batch.said("server_crash")
    assert said.code == 1
    assert "the ServerApp raised an exception" in said.err
    assert "in look_at_the_pieces" in said.err
    assert "ModelExplodedError: round 1 left nothing to train" in said.err
    assert re.search(r"run \d+ failed after .*round 1 left nothing to train", said.err)


def test_a_crash_at_one_site_is_shown_with_the_site_and_the_run_goes_on(batch: Batch) -> None:
    said = batch.said("client_crash")
    assert said.code == 0
    assert "the ClientApp at local-2 raised an exception" in said.err
    assert "DataUnreadableError: partition 1 cannot read its data" in said.err
    assert "ClientApp at local-1" not in said.err
    assert re.search(r"^1 .* 2 +1 ", said.out, re.MULTILINE), said.out


def test_an_import_that_fails_everywhere_fails_the_run(batch: Batch) -> None:
    said = batch.said("import_error")
    assert said.code == 1
    for number in (1, 2, 3):
        assert f"the ClientApp at local-{number} raised an exception" in said.err
    assert "No module named 'a_package_that_nobody_has'" in said.err


def test_a_run_may_be_named_by_its_first_digits(shared: Home, batch: Batch) -> None:
    run_id = batch.said("grid_only").data["run_id"]
    said = shared.umbel("stop", run_id[:9], "-o", "json").ok()
    assert said.data["run_id"] == run_id


def test_stopping_a_completed_run_changes_nothing(shared: Home, batch: Batch) -> None:
    shared.until_over(batch.ids["message_numpy"])
    said = shared.umbel("stop", batch.ids["message_numpy"]).ok()
    assert said.err == f"run {batch.ids['message_numpy']}: completed\n"


def test_a_run_that_is_not_there_is_told(shared: Home, batch: Batch) -> None:
    assert batch.ids
    for command in ("logs", "stop", "pull"):
        shared.umbel(command, "0").refused(2, "U324")  # no id begins so


def test_a_site_that_is_not_there_is_told_with_those_that_are(shared: Home, batch: Batch) -> None:
    run_id = batch.said("grid_only").data["run_id"]
    said = shared.umbel("logs", run_id, "--site", "nowhere").refused(2, "U326")
    assert "logs: hub, local-1, local-2, local-3" in said.err


def test_what_is_no_app_is_refused(shared: Home, tmp_path: Path) -> None:
    shared.umbel("run", str(tmp_path)).refused(2, "U311")
    shared.umbel("run", str(tmp_path / "nowhere")).refused(2, "U311")
    shared.umbel("run", "-c", "no-sign").refused(2, "U313")


def test_ctrl_c_leaves_the_run_going(shared: Home) -> None:
    app = Path(__file__).parents[2] / "apps" / "grid_only"
    with shared.beside("umbel", "run", str(app)) as process:
        assert process.stderr is not None
        run_id = process.stderr.readline().split()[1]
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130
    assert f"run {run_id} goes on" in told
    assert "Traceback" not in told
    assert shared.until_over(run_id)["status"] == "completed"


def test_an_app_that_was_written_by_init_runs(shared: Home, batch: Batch) -> None:
    ended = shared.until_over(batch.ids["mine"])
    assert (ended["status"], ended["rounds_done"]) == ("completed", 1)
    assert ended["app"] == "umbel/quickstart==1.0.0"


def test_init_overwrites_nothing_and_its_document_is_taken(shared: Home, tmp_path: Path) -> None:
    shared.umbel("init", "mine", cwd=tmp_path).ok()
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    shared.umbel("init", "mine", cwd=tmp_path).refused(2, "U314")
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    plan = shared.umbel("plan", "-o", "json", cwd=tmp_path / "mine")
    assert (plan.code, plan.data["federation"]) == (10, "mine")
