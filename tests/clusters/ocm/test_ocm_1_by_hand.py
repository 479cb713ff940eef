"""A hub without an operator: a federation from a laptop, with nothing but a kubeconfig."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from testbed.api import Api
from testbed.bed import Bed
from testbed.pods.plan import GATEWAY
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import DEPLOYMENT, LEASE, operator_pods
from tests.clusters.ocm.stories import (
    SYSTEM,
    VERSION,
    Federation,
    Person,
    everywhere,
    labelled,
    spec,
    traces_of,
)
from tests.clusters.stories import rolled_out

from umbel.targets.ocm.install import OPERATOR

pytestmark = pytest.mark.timeout(600)
SPACE, NAME = "ocm-alone", "alone"
RUNNING = ("v1", "Pod", SYSTEM, f"app.kubernetes.io/name={OPERATOR}")
PLACE = ["managedclustersetbindings: global"]  # what a namespace has, whoever uses it


@pytest.fixture(scope="module")
def unattended(pods: Bed, hub: Api) -> Iterator[Api]:
    """No operator runs on the hub; one that is installed is switched off for so long."""
    assert pods.layout.nodes
    if hub.get(*DEPLOYMENT) is None:
        yield hub
        return
    path = hub.path(*DEPLOYMENT[:2], DEPLOYMENT[3], DEPLOYMENT[2])
    hub.patch(path, {"spec": {"replicas": 0}})
    try:
        eventually("the end of the operator", lambda: not list(hub.list(*RUNNING)), 90)
        yield hub
    finally:
        hub.patch(path, {"spec": {"replicas": 1}})
        hub.wait(DEPLOYMENT, rolled_out, 120)
        leaders = {pod["metadata"]["name"] for pod in operator_pods(hub)}
        hub.wait(LEASE, lambda seen: seen["spec"].get("holderIdentity") in leaders)


@pytest.fixture(scope="module")
def federation(unattended: Api) -> Iterator[Federation]:
    """What the document speaks of; its namespace is made by `umbel up`."""
    yield Federation(unattended, SPACE, NAME)
    unattended.delete("v1", "Namespace", SPACE)


@pytest.fixture(scope="module")
def document(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alone") / "federation.yaml"
    wanted = federation.resource(spec(everywhere(placement=labelled("gpu", "false"))))
    path.write_text(yaml.safe_dump(wanted))
    return path


@pytest.fixture(scope="module")
def person(pods: Bed, federation: Federation, document: Path) -> Person:
    """Somebody who reaches the hub's API from the network of the nodes."""
    config = yaml.safe_load(pods.layout.kubeconfig("hub").read_text())
    port = pods.layout.clusters["hub"].api
    config["clusters"][0]["cluster"]["server"] = f"https://{GATEWAY}:{port}"
    path = document.with_name("kubeconfig")
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return Person(document.with_name("home"), federation, {**os.environ, "KUBECONFIG": str(path)})


def test_up_does_the_operators_work_once_and_says_so(
    person: Person, document: Path, federation: Federation
) -> None:
    done = person.umbel("up", "-f", str(document))
    assert done.returncode == 0, done.stderr
    assert "no operator keeps federations here" in done.stderr
    assert "nobody keeps it while you are away" in done.stderr
    assert f"{NAME} is ready, at " in done.stderr
    assert "boston" in done.stdout
    assert not declared(federation)


def declared(federation: Federation) -> bool:
    """Tell whether the hub has the document as a resource."""
    served = federation.hub.request("GET", "/apis")["groups"]
    known = any(group["name"] == VERSION.partition("/")[0] for group in served)
    return known and federation.hub.get(*federation.key) is not None


def test_there_is_nothing_left_to_do(person: Person, document: Path) -> None:
    done = person.umbel("plan", "-f", str(document))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to do" in done.stderr


def test_it_trains_and_what_it_trained_outlives_it(
    person: Person, document: Path, federation: Federation, spokes: Mapping[str, Api]
) -> None:
    ended = person.runs(min_nodes=1)
    assert (ended.status, ended.rounds) == ("completed", [[0]] * 3)
    down = person.umbel("down", "-f", str(document), "--keep-data")
    assert down.returncode == 0, down.stderr
    names = federation.names
    assert federation.hub.get("apps/v1", "StatefulSet", names.hub, SPACE) is None
    assert spokes["boston"].get("v1", "Namespace", names.addon) is None
    again = person.umbel("up", "-f", str(document))
    assert again.returncode == 0, again.stderr
    assert person.run_now(ended.run_id)["status"] == "completed"


def test_down_leaves_nothing(
    person: Person, document: Path, federation: Federation, spokes: Mapping[str, Api]
) -> None:
    assert len(traces_of(federation.hub, federation.names.addon, SPACE)) > 15
    down = person.umbel("down", "-f", str(document))
    assert down.returncode == 0, down.stderr
    for api in (federation.hub, *spokes.values()):
        assert traces_of(api, federation.names.addon) == []
    left = [one for one in traces_of(federation.hub, SPACE) if not is_given(one)]
    assert left == PLACE


def is_given(trace: str) -> bool:
    """Tell whether every namespace has it: itself, an account, the API server's certificate."""
    return trace.split(": ")[1] in (SPACE, "default", "kube-root-ca.crt")
