"""From a laptop: a plan before the first time, a kubeconfig that is named, and clear words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from tests.clusters.ocm.stories import Federation, everywhere, labelled, spec

pytestmark = pytest.mark.timeout(600)
SPACE, NAME = "ocm-laptop", "portable"
Said = subprocess.CompletedProcess[str]
Umbel = Callable[..., Said]


@pytest.fixture(scope="module")
def umbel(operator: Api, bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Umbel]:
    """Somebody's command line, whose only way to the hub is an option."""
    home = tmp_path_factory.mktemp("laptop")
    kept = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "UMBEL_FEDERATION")}
    env = {**kept, "UMBEL_HOME": str(home / "home"), "HOME": str(home), "NO_COLOR": "1"}

    def call(*words: str, file: Path | None = None) -> Said:
        hub = ("--kubeconfig", str(bed.layout.kubeconfig("hub"))) if file else ()
        argv = [sys.executable, "-m", "umbel", *words, *(("-f", str(file)) if file else ()), *hub]
        return subprocess.run(
            argv, env=env, cwd=home, capture_output=True, text=True, check=False, timeout=300
        )

    yield call
    federation = Federation(operator, SPACE, NAME)
    federation.delete()
    federation.until_gone()
    operator.delete("v1", "Namespace", SPACE)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Object], Path]:
    def written(wanted: Object) -> Path:
        path = tmp_path / "federation.json"
        meta = {"name": NAME, "namespace": SPACE}
        path.write_text(json.dumps({"metadata": meta, "spec": wanted}))
        return path

    return written


def document(size: str = "1Gi", **more: object) -> Object:
    return spec(everywhere(**more), kubernetes={"storage": {"size": size}})


def steps(said: Said) -> dict[str, str]:
    assert said.returncode in (0, 10), said.stderr
    return {step["unit"]: step["action"] for step in json.loads(said.stdout)["steps"]}


Write = Callable[[Object], Path]


def test_before_the_first_time_a_plan_shows_sites_and_environments(
    hub: Api, umbel: Umbel, write: Write
) -> None:
    wanted = document()
    narrow = labelled("gpu", "true")["predicates"]
    wanted["runtime"]["environments"] = [
        {"name": "wide", "app": "a/wide"},
        {"name": "narrow", "app": "a/narrow", "predicates": narrow},
    ]
    found = steps(umbel("plan", "-o", "json", file=write(wanted)))
    with_gpu = [
        c["metadata"]["name"]
        for c in hub.list("cluster.open-cluster-management.io/v1", "ManagedCluster")
        if c["metadata"].get("labels", {}).get("gpu") == "true"
    ]
    expected = {"hub/superlink", "hub/gate", "hub/server-exec"}
    for site in ("berlin", "boston"):
        expected |= {f"{site}/supernode", f"{site}/client-exec", f"{site}/environment wide"}
    expected |= {f"{site}/environment narrow" for site in with_gpu}
    assert with_gpu
    assert found == dict.fromkeys(expected, "create")
    assert hub.get("v1", "Namespace", SPACE) is None  # a plan makes nothing


def test_a_set_that_is_not_there_is_said_by_the_plan(umbel: Umbel, write: Write) -> None:
    said = umbel("plan", file=write(document(placement={"clusterSets": ["nobodys"]})))
    assert "nobody can tell which clusters: there is no cluster set nobodys" in said.stdout


def test_what_was_foreseen_comes_true(umbel: Umbel, write: Write) -> None:
    said = umbel("up", file=write(document()))
    assert said.returncode == 0, said.stderr
    assert set(steps(umbel("plan", "-o", "json", file=write(document()))).values()) == {"keep"}


def test_a_smaller_volume_ends_up_at_once(umbel: Umbel, write: Write) -> None:
    small = write(document("512Mi"))
    for command, code in (("up", "U153"), ("plan", "U396")):
        said = umbel(command, file=small)
        assert said.returncode == 2
        assert f"error[{code}]" in said.stderr
        assert "cannot shrink" in said.stderr


def test_other_commands_say_what_to_do_where_it_is(umbel: Umbel) -> None:
    scaled = umbel("scale", "all", "1")
    assert (scaled.returncode, "error[U392]" in scaled.stderr) == (2, True)
    told = " ".join(scaled.stderr.split())
    assert "placement.numberOfClusters of its group all to 1" in told
    assert f"kubectl -n {SPACE} edit federation {NAME}" in told
    ended = umbel("down", "-n", NAME)
    assert (ended.returncode, "error[U392]" in ended.stderr) == (2, True)
    assert "error[U321]" in umbel("down", "-n", "typo").stderr


def test_it_is_forgotten_when_it_is_taken_away(umbel: Umbel, write: Write) -> None:
    said = umbel("down", file=write(document()))
    assert said.returncode == 0, said.stderr
    assert "error[U226]" in umbel("status").stderr
