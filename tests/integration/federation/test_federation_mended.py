"""What went wrong once, and does not any more."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.federation.expiry import expire

from umbel.engine.engine import Engine
from umbel.store.memory import MemoryStore
from umbel.testing import FakeFlower, FakeTarget, federation

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Home

ONE_SITE = [{"name": "local", "sites": 1}]
APPS = Path(__file__).parents[2] / "apps"
ROUND = ("-c", "num-server-rounds=1")

pytestmark = pytest.mark.long  # federations of its own, broken and mended: 100 s


@pytest.fixture
def one(new_home: Home) -> Home:
    """Give a home with one federation of one site."""
    new_home.umbel("up", "-f", str(new_home.write("one", groups=ONE_SITE))).ok()
    return new_home


def document(home: Home, name: str = "one") -> str:
    return str(home.path.parent / f"{home.path.name}-{name}.yaml")


def test_a_child_that_left_its_parent_is_ended_too(one: Home, tmp_path: Path) -> None:
    """stop: a child that was forked twice belongs to the executor, not to the task."""
    app = tmp_path / "app"
    shutil.copytree(APPS / "hang", app)
    client = app / "hang" / "client_app.py"
    text = client.read_text().replace(
        '[sys.executable, "-c", CHILD, "hang-child", str(context.run_id)]',
        '[sys.executable, "-c", "import subprocess, sys; subprocess.Popen([sys.executable, \'-c\', "'
        "f\"{CHILD!r}, 'hang-child'], start_new_session=True)\"]",
    )
    client.write_text(
        text.replace(
            "    child.wait()\n", "    child.wait()\n    __import__('threading').Event().wait()\n"
        )
    )
    run_id = one.submit(app, name="one")
    one.until(
        lambda: [p for p in one.processes() if p.command.rstrip().endswith("hang-child")],
        "it hangs",
    )
    one.umbel("stop", run_id).ok()
    assert [p for p in one.processes() if p.command.rstrip().endswith("hang-child")] == []


def test_a_time_limit_ends_a_task_in_time_with_its_reason(new_home: Home) -> None:
    """runs: the limit is looked at when it is due, told once, and ends also detached children."""
    doc = new_home.write("one", groups=ONE_SITE, runtime={"taskTimeoutSeconds": 10})
    new_home.umbel("up", "-f", str(doc)).ok()
    run_id = new_home.submit("hang", "-c", "own-session=true", name="one")

    def hanging() -> bool:
        return any("hang-child" in process.command for process in new_home.processes())

    new_home.until(hanging, "it hangs")
    new_home.until(lambda: not hanging(), "its time is over")
    events = new_home.folder("one") / "sites" / "local-1" / "runs" / run_id / "events.jsonl"
    causes = [json.loads(line)["cause"] for line in events.read_text().splitlines()]
    assert causes == ["ran longer than 10 s"]


def test_a_daemon_that_was_asked_to_end_leaves_a_federation_that_can_be_ended(one: Home) -> None:
    """survives: after SIGTERM the units run on, and every command says that nothing runs."""
    daemon = one.pid_of("daemon")
    os.kill(daemon, signal.SIGTERM)
    one.until(lambda: one.pid_of("daemon") != daemon, "the daemon is gone")
    one.umbel("status").ok()
    one.umbel("down").ok()
    assert one.processes() == []


def test_following_goes_on_when_the_daemon_was_killed(
    one: Home, patient: tuple[Path, Path]
) -> None:
    """survives: today the command ends with 1, which says that the run failed."""
    app, released = patient
    with one.beside("umbel", "run", str(app), *ROUND) as process:
        assert process.stderr is not None
        run_id = process.stderr.readline().split()[1]
        one.until(lambda: len(one.tasks(run_id)) == 2, "both are at work")
        one.kill(one.pid_of("daemon"))
        released.touch()
        told = process.stderr.read()
    assert process.returncode == 0, told


def test_a_gate_killed_at_the_wrong_moment_does_not_fail_the_run(one: Home) -> None:
    """survives: an object that arrived, but whose answer was lost, counts as refused on repeat."""
    run_id = one.submit("message_numpy", "-c", "num-server-rounds=30", name="one")

    def rounds() -> int:
        return int(one.ask(f"/v1/federations/one/runs/{run_id}").get("rounds_done", 0))

    for wanted in (1, 5, 9):
        one.until(lambda: rounds() >= wanted, "a round is over")  # noqa: B023
        one.kill(one.units("one")["hub/gate"])
        one.until(lambda: one.units("one").get("hub/gate"), "the gate is back")
    assert one.until_over(run_id, "one")["status"] == "completed"


def test_a_site_that_left_the_document_while_all_was_down_is_a_stranger(new_home: Home) -> None:
    """down: with kept data, its key stays registered at the SuperLink and in the gate's list."""
    groups = [{"name": "local", "sites": 2}]
    new_home.umbel("up", "-f", str(new_home.write("one", groups=groups))).ok()
    new_home.umbel("down", "--keep-data").ok()
    new_home.umbel("up", "-f", str(new_home.write("one", groups=ONE_SITE)))
    new_home.umbel("up", "-f", document(new_home)).ok()
    roster = json.loads((new_home.folder("one") / "hub" / "sites.json").read_text())
    assert [entry["site"] for entry in roster.values()] == ["local-1"]
    assert not (new_home.folder("one") / "sites" / "local-2" / "node.key").exists()


async def test_a_plan_shows_what_up_would_do() -> None:
    """up: a plan uses the remembered ports, so a declared port that changed is not in it."""
    store = MemoryStore()
    target = FakeTarget(store)
    engine = Engine(store, target, FakeFlower(target))
    await engine.apply(federation(sites=2), lambda _: None)
    other = federation(sites=2, superlink={"ports": {"control": 19555}})
    more = federation(sites=3)
    for wanted in (other, more):
        planned = {(s.action, s.unit) for s in (await engine.plan(wanted)).changes}
        done = {(s.action, s.unit) for s in (await engine.apply(wanted, lambda _: None)).changes}
        assert planned == done


@pytest.mark.parametrize(
    "words", [("runs",), ("run",), ("logs", "1"), ("stop", "1"), ("pull", "1")]
)
def test_an_unknown_federation_is_told_by_every_command(
    shared: Home, words: tuple[str, ...]
) -> None:
    """up: these answer U214 with an internal path, and 1."""
    shared.umbel(*words, "-n", "nope").refused(2, "U321")


def test_a_run_that_flower_refuses_says_why(shared: Home) -> None:
    """runs: Flower's answers carry `detail`, not `message`."""
    said = shared.umbel("run", str(APPS / "grid_only"), "-c", "no-such-key=1")
    said.refused(2, "U310")
    assert "Invalid run configuration" in said.err


def test_metrics_are_json_that_everybody_can_read(one: Home) -> None:
    """runs: NaN and Infinity are no JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    run_id = one.submit("metrics_odd", *ROUND, name="one")
    one.until_over(run_id, "one")
    for name in ("metrics.json", "events.jsonl"):
        text = (one.folder("one") / "hub" / "runs" / run_id / name).read_text()
        for part in [text] if name.endswith("json") else text.splitlines():
            json.loads(part, parse_constant=refuse)


def test_a_run_without_a_strategy_can_be_pulled(one: Home, tmp_path: Path) -> None:
    """runs: its rounds are listed, but metrics.json is written by a strategy's end only."""
    run_id = one.submit("grid_only", name="one")
    one.until_over(run_id, "one")
    one.umbel("pull", run_id, str(tmp_path)).ok()
    assert json.loads((tmp_path / "metrics.json").read_text())


def test_a_sites_ended_certificate_is_renewed_by_up(one: Home) -> None:
    """down: `up` renews the gate's only, waits 120 s, and says that it is not ready."""
    place = one.folder("one") / "sites" / "local-1"
    expire(one.folder("one") / "ca", place)
    one.umbel("up", "-f", document(one)).ok()
    one.umbel("status").ok()


def test_a_site_whose_port_was_taken_while_it_was_dead_comes_back(one: Home) -> None:
    """survives: with another port, and without anybody asking."""
    gone = one.units("one")["local-1/supernode"]
    port = listening_port(gone)
    one.kill(gone)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.until(lambda: bound(taken, port), "the port is ours", 3)

        def back() -> bool:
            new = one.units("one").get("local-1/supernode", gone)
            found = one.status("one")
            return new != gone and bool(found) and found["sites"][0]["state"] == "online"

        one.until(back, "the site is online on another port", 60)


def bound(taken: socket.socket, port: int) -> bool:
    try:
        taken.bind(("127.0.0.1", port))
        taken.listen()
    except OSError:
        return False
    return True


def listening_port(pid: int) -> int:
    inodes = {
        Path(f"/proc/{pid}/fd/{p.name}").readlink() for p in Path(f"/proc/{pid}/fd").iterdir()
    }
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and Path(f"socket:[{fields[9]}]") in inodes:
            return int(fields[1].partition(":")[2], 16)
    raise AssertionError(pid)


def test_a_damaged_state_file_is_told_and_nothing_is_left(new_home: Home) -> None:
    """trouble: the daemon ends with U215, but the nursery that it has begun to load stays."""
    new_home.path.mkdir()
    (new_home.path / "umbel.db").write_bytes(b"no database " * 500)
    said = new_home.umbel("up", "-f", str(new_home.write("one", groups=ONE_SITE)))
    assert "error[U215]" in said.err, said.err
    assert "move it away" in said.err
    new_home.until(lambda: new_home.processes() == [], "nothing runs", 10)


def test_a_federation_called_default_can_be_connected_to(new_home: Home, tmp_path: Path) -> None:
    """flwr: `[superlink] default = …` and `[superlink.default]` are one key in TOML."""
    new_home.umbel("up", "-f", str(new_home.write("default", groups=ONE_SITE))).ok()
    new_home.umbel("connect", str(tmp_path / "flwr")).ok()
    tomllib.loads((tmp_path / "flwr" / "config.toml").read_text())
