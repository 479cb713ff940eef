from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from umbel.flower.control import ControlUnreachable
from umbel.gate.desk import PAGES
from umbel.model.event import RoundEnded, RunBegan
from umbel.model.status import Condition, FederationStatus, NodeSeen, RunStatus, SiteStatus
from umbel.server.desk.config import DeskConfig
from umbel.server.desk.files import FileUnknown, opened

if TYPE_CHECKING:
    from tests.unit.server.conftest import FakeLink

LAB = "/v1/federations/lab"
Leave = Callable[..., None]


def now(seconds_ago: float = 0.0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat(timespec="milliseconds")


def report(name: str = "lab") -> dict[str, Any]:
    told = FederationStatus(
        name=name,
        phase="Ready",
        endpoint={"fleet": "fl:9092", "control": "fl:9093"},
        versions={"umbel": "0"},
        conditions=(Condition("Ready", "True", "AllWell"),),
        sites=(SiteStatus("north", "all", "ocm", chosen=True, state="online"),),
        certificates=(),
        runs=None,
    )
    return asdict(told)


@pytest.fixture
def desk(
    ask: httpx.AsyncClient, link: FakeLink, leave: Leave
) -> tuple[httpx.AsyncClient, FakeLink, Leave]:
    return ask, link, leave


async def test_every_page_asks_for_the_role_that_the_gate_asks_for(ask: httpx.AsyncClient) -> None:
    for page in PAGES:
        path = page.path.replace("{name}", "lab").replace("{run}", "1")
        path = path.replace("{path:path}", "x")
        for role in ("", "nobody", *(["viewer"] if page.method != "GET" else [])):
            answer = await ask.request(page.method, path, headers={"umbel-role": role})
            assert (answer.status_code, answer.json()["code"]) == (403, "U352"), page


async def test_health_is_told_to_anybody_on_the_socket(ask: httpx.AsyncClient) -> None:
    answer = await ask.get("/healthz", headers={"umbel-role": ""})
    assert answer.json() == {"ok": True}


async def test_there_is_one_federation(ask: httpx.AsyncClient) -> None:
    assert (await ask.get("/v1/federations")).json() == [{"metadata": {"name": "lab"}}]
    answer = await ask.get("/v1/federations/other")
    assert (answer.status_code, answer.json()["code"]) == (404, "U321")


async def test_without_a_report_the_nodes_tell(ask: httpx.AsyncClient, link: FakeLink) -> None:
    link.registered = {"f": NodeSeen(7, "north", "online", "f")}
    status = (await ask.get(LAB)).json()
    assert (status["phase"], status["as_of"], status["runs"]) == ("Unknown", None, [])
    assert [(s["name"], s["state"], s["node_id"]) for s in status["sites"]] == [
        ("north", "online", "7")
    ]


async def test_the_last_report_is_given_with_the_runs_of_now(
    ask: httpx.AsyncClient, link: FakeLink, leave: Leave
) -> None:
    answer = await ask.put(f"{LAB}/status", json={**report(), "runs": [], "newer": 1})
    assert answer.status_code == 200
    link.listed = [RunStatus("12", "me/app==1", "running")]
    leave("12", "events.jsonl", RunBegan("12", now(), "FedAvg", 5), ended(2, "12"))
    status = (await ask.get(LAB)).json()
    assert (status["phase"], status["sites"][0]["name"], status["newer"]) == ("Ready", "north", 1)
    assert [(r["run_id"], r["rounds_done"], r["rounds"]) for r in status["runs"]] == [("12", 2, 5)]
    assert 0 <= status["age_s"] < 60
    assert datetime.fromisoformat(status["as_of"]).tzinfo is not None


def ended(number: int, run_id: str = "1", seconds_ago: float = 0.0) -> RoundEnded:
    return RoundEnded(run_id, now(seconds_ago), number, 0.5)


async def test_while_the_superlink_is_away_the_report_still_stands(
    ask: httpx.AsyncClient, link: FakeLink
) -> None:
    await ask.put(f"{LAB}/status", json=report())
    link.trouble = ControlUnreachable("x", "answer 503")
    status = (await ask.get(LAB)).json()
    assert (status["phase"], status["runs"]) == ("Ready", None)
    for path in ("nodes", "runs", "rounds", "runs/1", "runs/1/events", "runs/1/files"):
        answer = await ask.get(f"{LAB}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (503, "U213"), path


@pytest.mark.parametrize("told", [{}, {"name": "lab"}, {**report(), "sites": 7}, report("other")])
async def test_a_report_of_another_form_is_refused_and_the_old_one_stays(
    told: dict[str, Any], ask: httpx.AsyncClient, config: DeskConfig
) -> None:
    await ask.put(f"{LAB}/status", json=report())
    before = config.status.read_bytes()
    answer = await ask.put(f"{LAB}/status", json=told)
    assert (answer.status_code, answer.json()["code"]) == (422, "U355")
    assert config.status.read_bytes() == before
    assert config.status.stat().st_mode & 0o777 == 0o600


async def test_a_damaged_report_is_as_none(ask: httpx.AsyncClient, config: DeskConfig) -> None:
    config.status.write_text("{")
    assert (await ask.get(LAB)).json()["phase"] == "Unknown"


async def test_a_bundle_is_submitted(ask: httpx.AsyncClient, link: FakeLink) -> None:
    fab = base64.b64encode(b"bundle").decode()
    order = {"fab": fab, "config": {"rounds": 3, "rate": 0.5, "name": "x", "quick": True}}
    answer = await ask.post(f"{LAB}/runs", json=order)
    assert (answer.status_code, answer.json()["run_id"]) == (201, "77")
    assert link.submitted == [(fab, order["config"])]


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"fab": 1},
        {"fab": "not base64!"},
        {"fab": "YQ==", "config": []},
        {"fab": "YQ==", "config": {"a": [1]}},
        {"fab": "YQ==", "config": {"a": None}},
        {"fab": "YQ==", "app": "/etc"},
    ],
)
async def test_an_odd_order_starts_nothing(
    order: dict[str, Any], ask: httpx.AsyncClient, link: FakeLink
) -> None:
    answer = await ask.post(f"{LAB}/runs", json=order)
    assert (answer.status_code, answer.json()["code"]) == (422, "U355")
    assert link.calls == []


async def test_a_bundle_that_flower_would_drop_is_refused(
    ask: httpx.AsyncClient, link: FakeLink
) -> None:
    fab = base64.b64encode(bytes((10 << 20) + 1)).decode()
    assert (await ask.post(f"{LAB}/runs", json={"fab": fab})).json()["code"] == "U312"
    huge = await ask.post(f"{LAB}/runs", content=b" " * ((16 << 20) + 1))
    assert huge.json()["code"] == "U355"
    assert link.calls == []


async def test_a_run_is_stopped_by_a_prefix_of_its_id(
    ask: httpx.AsyncClient, link: FakeLink
) -> None:
    link.listed = [RunStatus("123", "a", "running")]
    answer = await ask.post(f"{LAB}/runs/12/stop")
    assert (answer.json()["run_id"], answer.json()["status"]) == ("123", "stopped")


async def test_events_and_logs_are_lines(
    ask: httpx.AsyncClient, link: FakeLink, leave: Leave
) -> None:
    link.listed = [RunStatus("5", "a", "completed")]
    leave("5", "events.jsonl", ended(1, "5"))
    leave("5", "log.txt", "one\n", "two")
    events = (await ask.get(f"{LAB}/runs/5/events")).text.splitlines()
    assert len(events) == 2
    logs = (await ask.get(f"{LAB}/runs/5/logs?site=all")).text
    assert logs == '{"site": "hub", "line": "one"}\n{"site": "hub", "line": "two"}\n'


@pytest.mark.parametrize(
    ("status", "ends", "in_round"),
    [
        ("pending", [], False),
        ("running", [], True),
        ("running", [60.0], True),
        ("running", [60.0, 0.0], False),
        ("completed", [60.0], False),
    ],
)
async def test_a_boundary_is_the_moment_after_a_round(
    desk: tuple[httpx.AsyncClient, FakeLink, Leave], status: str, ends: list[float], in_round: bool
) -> None:
    ask, link, leave = desk
    link.listed = [RunStatus("5", "a", status)]
    leave("5", "events.jsonl", *(ended(n, "5", ago) for n, ago in enumerate(ends)))
    told = (await ask.get(f"{LAB}/rounds")).json()
    assert told == {"active_runs": int(status != "completed"), "in_round": in_round}


async def test_a_wait_ends_with_the_round(
    ask: httpx.AsyncClient, link: FakeLink, leave: Leave
) -> None:
    link.listed = [RunStatus("5", "a", "running")]
    leave("5", "events.jsonl", RunBegan("5", now()), ended(1, "5"))
    assert (await ask.get(f"{LAB}/rounds?wait=300")).json()["in_round"] is False
    assert (await ask.get(f"{LAB}/rounds?wait=soon")).status_code == 422


@pytest.fixture
def left(link: FakeLink, leave: Leave) -> None:
    link.listed = [RunStatus("5", "a", "completed")]
    leave("5", "log.txt", "said")
    leave("5", "model.npz", "weights")
    leave("5", "out/part ä.csv", "1,2")
    leave("5", ".hidden", "x")


@pytest.mark.usefixtures("left")
async def test_files_are_listed_and_given(ask: httpx.AsyncClient) -> None:
    listed = (await ask.get(f"{LAB}/runs/5/files")).json()
    assert listed == [
        {"path": "log.txt", "size": 4},
        {"path": "model.npz", "size": 7},
        {"path": "out/part ä.csv", "size": 3},
    ]
    for item in listed:
        answer = await ask.get(f"{LAB}/runs/5/files/{item['path']}")
        assert int(answer.headers["content-length"]) == len(answer.content) == item["size"]


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize(
    "path",
    [
        "../6/model.npz",
        "out/../../6/model.npz",
        "out/../model.npz",
        "./model.npz",
        "/etc/passwd",
        "out//part ä.csv",
        "out",
        "out/",
        "",
        "none",
        "model.npz\0",
    ],
)
def test_only_what_is_below_the_runs_folder_is_given(
    path: str, config: DeskConfig, leave: Leave
) -> None:
    leave("6", "model.npz", "another run's")
    with pytest.raises(FileUnknown):
        opened(config.runs, "5", path)


@pytest.mark.usefixtures("left")
async def test_an_escaped_way_up_leads_nowhere_either(ask: httpx.AsyncClient, leave: Leave) -> None:
    leave("6", "model.npz", "another run's")
    answer = await ask.get(f"{LAB}/runs/5/files/%2e%2e%2f6%2fmodel.npz")
    assert (answer.status_code, answer.json()["code"]) == (404, "U356")


@pytest.mark.usefixtures("left")
async def test_no_link_and_no_pipe_is_followed(
    ask: httpx.AsyncClient, config: DeskConfig, link: FakeLink, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "model.npz").write_text("secret")
    folder = config.runs / "5"
    (folder / "link").symlink_to(secret)
    (folder / "folder").symlink_to(tmp_path / "elsewhere")
    (folder / "log.txt").unlink()
    (folder / "log.txt").symlink_to(secret)
    (config.runs / "9").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "pipe")
    link.listed.append(RunStatus("9", "a", "completed"))
    names = [item["path"] for item in (await ask.get(f"{LAB}/runs/5/files")).json()]
    assert names == ["model.npz", "out/part ä.csv"]
    for path in ("5/files/link", "5/files/folder/model.npz", "5/files/pipe", "9/files/model.npz"):
        answer = await ask.get(f"{LAB}/runs/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "U356"), path
    assert (await ask.get(f"{LAB}/runs/9/files")).json() in ([], {})
    assert (await ask.get(f"{LAB}/runs/5/logs")).text == ""
