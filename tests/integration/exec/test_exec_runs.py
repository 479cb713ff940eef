"""Apps run in environments of their own, within limits, and say why when they cannot."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.exec.conftest import ROUND
from tests.integration.exec.wheels import make_wheel

if TYPE_CHECKING:
    from tests.integration.exec.conftest import MakeApp
    from tests.integration.federation.conftest import Home


def logs(home: Home, run_id: str) -> str:
    """Give what the ClientApps of a run wrote."""
    files = (home.folder("tight") / "sites").glob(f"*/runs/{run_id}/log.txt")
    return "".join(file.read_text() for file in sorted(files))


def events(home: Home, run_id: str, kind: str) -> list[dict[str, Any]]:
    """Give the events of a kind, of the hub and of every site."""
    files = home.folder("tight").glob(f"**/runs/{run_id}/events.jsonl")
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [event for event in found if event["kind"] == kind]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the dependency on a tiny package, by version."""
    folder = tmp_path_factory.mktemp("tiny")
    made = {version: make_wheel(folder, "tiny", version) for version in ("1.0", "2.0")}
    return {version: f"tiny @ {wheel.as_uri()}" for version, wheel in made.items()}


SAY = "import tiny; print('tiny', tiny.VERSION, flush=True)"


def test_two_versions_of_a_package_serve_two_runs_at_once(
    tight: Home, make_app: MakeApp, tiny: dict[str, str]
) -> None:
    ids = {}
    for version, dependency in tiny.items():
        app = make_app(f"with-{version[0]}", SAY, dependency)
        ids[version] = tight.submit(app, *ROUND, name="tight")
    for version, run_id in ids.items():
        assert tight.until_over(run_id, "tight")["status"] == "completed"
        assert set(re.findall(r"tiny (\S+)", logs(tight, run_id))) == {version}
        assert events(tight, run_id, "environment-ready")


def test_a_module_of_the_app_goes_before_a_package_of_that_name(
    tight: Home, make_app: MakeApp, tiny: dict[str, str]
) -> None:
    """Though the parent has loaded the package, for another app of the same environment."""
    app = make_app("has-its-own", SAY, tiny["1.0"])
    (app / "tiny.py").write_text("VERSION = 'own'\n")
    run_id = tight.submit(app, *ROUND, name="tight")
    assert tight.until_over(run_id, "tight")["status"] == "completed"
    assert set(re.findall(r"tiny (\S+)", logs(tight, run_id))) == {"own"}


def test_a_dependency_that_nobody_has_fails_the_run_in_the_resolvers_words(
    tight: Home, make_app: MakeApp
) -> None:
    app = make_app("lost", "", "no-such-package-of-umbel==4.5.6")
    said = tight.umbel("run", str(app), *ROUND, "-n", "tight")
    assert said.code == 1
    told = " ".join(said.err.split())
    assert "building the app's environment" in told
    assert "the app's environment cannot be built" in told
    assert "no-such-package-of-umbel" in told
    assert "Traceback" not in said.err


def test_an_app_sees_its_own_packages_and_none_of_ours(tight: Home, make_app: MakeApp) -> None:
    code = (
        "import importlib.util as u, os, sys\n"
        "names = ('pytest', 'hypothesis', 'cel', 'numpy', 'flwr')\n"
        "print('SEEN', [n for n in names if u.find_spec(n)], flush=True)\n"
        "print('OPEN', sorted(int(f) for f in os.listdir('/proc/self/fd'))[:3], flush=True)\n"
        "print('AT', os.getcwd(), flush=True)"
    )
    run_id = tight.submit(make_app("looks", code), *ROUND, name="tight")
    assert tight.until_over(run_id, "tight")["status"] == "completed"
    text = logs(tight, run_id)
    assert re.findall("SEEN (.*)", text) == ["['numpy', 'flwr']"] * 2
    assert all(place.endswith(f"/runs/{run_id}/work") for place in re.findall("AT (.*)", text))


def test_no_more_tasks_run_at_once_than_there_are_cores_for(
    tight: Home, make_app: MakeApp, tmp_path: Path
) -> None:
    code = (
        "import pathlib, threading, time\n"
        f"file = pathlib.Path({str(tmp_path)!r}) / f'span-{{time.monotonic_ns()}}'\n"
        "begin = time.monotonic()\n"
        "threading.Event().wait(0.3)\n"
        "file.write_text(f'{begin} {time.monotonic()}')"
    )
    run_id = tight.submit(make_app("spans", code), *ROUND, name="tight")
    assert tight.until_over(run_id, "tight")["status"] == "completed"
    spans = sorted(
        tuple(float(part) for part in file.read_text().split()) for file in tmp_path.glob("span-*")
    )
    assert len(spans) == 2
    assert spans[0][1] <= spans[1][0]


def test_a_task_that_takes_more_memory_than_allowed_fails_with_the_reason(
    tight: Home, make_app: MakeApp
) -> None:
    app = make_app("greedy", "taken = bytearray(1 << 30)")
    run_id = tight.submit(app, *ROUND, name="tight")
    tight.until_over(run_id, "tight")
    failed = events(tight, run_id, "reply-failed")
    assert {event["site"] for event in failed} == {"local-1", "local-2"}
    assert all("reached its memory limit of 256 MiB" in event["reason"] for event in failed)


def test_each_task_draws_other_random_numbers(tight: Home, make_app: MakeApp) -> None:
    code = "import random, numpy\nprint('DRAWN', random.random(), numpy.random.rand(), flush=True)"
    run_id = tight.submit(make_app("draws", code), *ROUND, name="tight")
    tight.until_over(run_id, "tight")
    drawn = [
        number for pair in re.findall(r"DRAWN (.*)", logs(tight, run_id)) for number in pair.split()
    ]
    assert len(drawn) == 4
    assert len(set(drawn)) == 4


def test_tasks_of_a_killed_parent_are_told_and_the_next_run_has_a_new_one(
    tight: Home, make_app: MakeApp, tmp_path: Path
) -> None:
    begun, released = tmp_path / "begun", tmp_path / "released"
    code = (
        f"import pathlib, threading\npathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(released)!r}).exists():\n    threading.Event().wait(0.05)"
    )
    run_id = tight.submit(make_app("waits", code), *ROUND, name="tight")
    tight.until(begun.exists, "a task works")
    task = next(p for p in tight.processes() if p.run == run_id)
    tight.kill(task.parent)
    ended = tight.until_over(run_id, "tight", 30)
    assert ended["status"] == "failed"
    assert "lost its parent" in ended["details"]
    released.touch()  # for the site that waited for its turn
    tight.until(lambda: not tight.tasks(run_id), "no task is left", 10)
    again = tight.submit(make_app("after"), *ROUND, name="tight")
    assert tight.until_over(again, "tight")["status"] == "completed"


def test_where_forking_is_not_safe_each_task_gets_a_fresh_process(
    tight: Home, make_app: MakeApp, tmp_path: Path
) -> None:
    busy = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    wheel = make_wheel(tmp_path / "wheels", "busy", "1.0", busy)
    code = "import busy, os; print('UNDER', os.getppid(), flush=True)"
    app = make_app("beside", code, f"busy @ {wheel.as_uri()}")
    run_id = tight.submit(app, *ROUND, name="tight")
    assert tight.until_over(run_id, "tight")["status"] == "completed"
    assert len(re.findall("UNDER", logs(tight, run_id))) == 2
    (note,) = (tight.path / "run" / "parents").glob("*.unsafe")
    assert note.read_text() == "1 threads run after the imports\n"


def test_all_tasks_of_an_environment_have_one_parent_and_down_leaves_none(
    tight: Home,
) -> None:
    parents = [p for p in tight.processes() if " warm " in p.command and not p.run]
    assert len({p.command for p in parents}) == len(parents)
    tight.umbel("down", "-n", "tight").ok()
    assert tight.processes() == []
