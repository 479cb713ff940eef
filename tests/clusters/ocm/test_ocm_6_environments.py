"""Apps' environments: two apps at the same time, each on its own sites and with its own packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import Meet
from tests.clusters.ocm.packages import (
    PACKAGES,
    environment,
    image_of,
    make_app,
    one_by_one,
    runtime,
    seen_by,
)
from tests.clusters.ocm.stories import (
    CLUSTER,
    KNOWN,
    Declare,
    Federation,
    Person,
    asleep,
    condition,
    everywhere,
    label,
    labelled,
)
from tests.clusters.stories import container, once

pytestmark = pytest.mark.timeout(600)
CONTROLLER = "hub-work"
SETS = ("work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet")


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Two apps that need a package each, and tell which packages they can see."""
    return {name: make_app(tmp_path_factory.mktemp("apps") / name, name) for name in PACKAGES}


@pytest.fixture(scope="module", autouse=True)
def gone(clinics: Federation, declare: Declare) -> Federation:
    """Another one, with the same images; it comes up while stories of the first are told."""
    del clinics
    return declare("ocm-environments-2", "short", one_by_one(environment("vision")))


@pytest.fixture(scope="module")
def ready(clinics: Federation) -> Federation:
    clinics.until_ready("berlin", "boston")
    clinics.wait(lambda seen: condition(seen, "EnvironmentsSent").get("status") == "True")
    return clinics


@pytest.fixture(scope="module")
def owner(ready: Federation, meet: Meet) -> Person:
    return meet(ready)


def executors(spoke: Api, names: Any) -> set[str]:
    """Name the environments whose executors a cluster has."""
    found = spoke.list("apps/v1", "Deployment", names.addon)
    named = (one["metadata"]["labels"].get("umbel.dev/environment") for one in found)
    return {name for name in named if name}


def pod_of(spoke: Api, names: Any, selector: str) -> str:
    """Name a pod that stays."""
    (pod,) = [
        pod
        for pod in spoke.list("v1", "Pod", names.addon, selector)
        if "deletionTimestamp" not in pod["metadata"]
    ]
    return str(pod["metadata"]["name"])


def test_environments_go_to_the_clusters_that_match(
    ready: Federation, spokes: Mapping[str, Api]
) -> None:
    assert executors(spokes["berlin"], ready.names) == {"vision"}
    assert executors(spokes["boston"], ready.names) == {"text"}
    said = condition(ready.seen(), "EnvironmentsSent")
    assert said["message"] == "vision: on 1 of 1 clusters; text: on 1 of 1 clusters"


def test_a_clusters_own_values_reach_its_executors(
    ready: Federation, spokes: Mapping[str, Api]
) -> None:
    name = pod_of(spokes["boston"], ready.names, "umbel.dev/environment=text")
    pod = spokes["boston"].get("v1", "Pod", name, ready.names.addon)
    assert pod is not None
    assert pod["spec"]["containers"][0]["image"] == image_of("text")


def test_two_apps_at_once_on_their_own_sites_see_nothing_of_each_other(
    owner: Person, apps: Mapping[str, Path]
) -> None:
    runs = {name: owner.starts(app, min_nodes=1, seconds=0.5) for name, app in apps.items()}
    ended = {name: owner.ends(run) for name, run in runs.items()}
    assert {one.status for one in ended.values()} == {"completed"}
    where = {name: {site for sites in one.rounds for site in sites} for name, one in ended.items()}
    assert all(len(sites) == 1 for sites in where.values())
    assert where["vision"] != where["text"]
    for name, other in (("vision", "text"), ("text", "vision")):
        packages = seen_by(ended[name].said)
        assert len(packages) == 3
        assert {site[PACKAGES[name]] for site in packages} == {1}
        assert {site[PACKAGES[other]] for site in packages} == {0}


def test_an_app_without_an_environment_runs_everywhere(owner: Person) -> None:
    ended = owner.runs(KNOWN, min_nodes=2)
    assert ended.status == "completed"
    assert ended.rounds == [[0, 1]] * 3


PROBE = """
import socket, sys
socket.getaddrinfo(sys.argv[1], 9094)  # its name is known to everybody
try:
    socket.create_connection((sys.argv[1], 9094), timeout=5).close()
except OSError:
    sys.exit(0)
sys.exit("it let a stranger in")
"""


@pytest.mark.parametrize("beside", [False, True], ids=["elsewhere", "in its namespace"])
def test_a_stranger_does_not_reach_the_supernode(
    ready: Federation, spokes: Mapping[str, Api], *, beside: bool
) -> None:
    addon = ready.names.addon
    spoke, space = spokes["berlin"], addon if beside else "default"
    pod = once("stranger", container(PROBE, args=["-c", PROBE, f"umbel-node.{addon}.svc"]))
    spoke.apply({**pod, "metadata": {"name": "stranger", "namespace": space}})
    try:
        key = ("v1", "Pod", "stranger", space)
        ended = spoke.wait(key, lambda seen: seen["status"]["phase"] in ("Succeeded", "Failed"))
        assert ended["status"]["phase"] == "Succeeded"
    finally:
        spoke.delete("v1", "Pod", "stranger", space)


def test_an_executor_has_its_own_secret_and_no_account(
    ready: Federation, spokes: Mapping[str, Api]
) -> None:
    spoke, names = spokes["berlin"], ready.names
    secret = spoke.get("v1", "Secret", "umbel-runtime", names.addon)
    assert secret is not None
    assert {"vision.secret", "text.secret", "ca.crt"} <= set(secret["data"])
    name = pod_of(spoke, names, "umbel.dev/environment=vision")
    pod = spoke.get("v1", "Pod", name, names.addon)
    assert pod is not None
    sources = [volume for volume in pod["spec"]["volumes"] if "secret" in volume]
    items = [item["key"] for volume in sources for item in volume["secret"]["items"]]
    assert sorted(items) == ["ca.crt", "vision.secret"]
    assert not any("projected" in volume for volume in pod["spec"]["volumes"])


def test_a_cluster_that_begins_to_match_gets_the_environment_and_one_that_stops_loses_it(
    ready: Federation, hub: Api, spokes: Mapping[str, Api]
) -> None:
    boston = spokes["boston"]
    before = site_uid(boston, ready)
    try:
        label(hub, "boston", gpu="true")
        has(boston, ready, {"vision"})
        ready.wait(lambda seen: "vision: on 2 of 2" in said(seen))
    finally:
        label(hub, "boston", gpu="false")
    has(boston, ready, {"text"})
    assert site_uid(boston, ready) == before  # the SuperNode never noticed
    ready.wait(lambda seen: condition(seen, "EnvironmentsSent").get("status") == "True")


def said(seen: Object) -> str:
    return str(condition(seen, "EnvironmentsSent").get("message", ""))


def has(spoke: Api, federation: Federation, names: set[str]) -> None:
    wait_for(f"exactly {names}", lambda: executors(spoke, federation.names) == names)


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    eventually(what, holds, 90)


def site_uid(spoke: Api, federation: Federation) -> str:
    found = spoke.get("apps/v1", "Deployment", "umbel-node", federation.names.addon)
    assert found is not None
    return str(found["metadata"]["uid"])


def test_an_environment_that_is_taken_out_is_gone_everywhere(
    ready: Federation, hub: Api, spokes: Mapping[str, Api]
) -> None:
    vision = environment("vision", predicates=labelled("gpu", "true")["predicates"])
    ready.change(runtime=runtime(vision))
    has(spokes["boston"], ready, set())

    def left() -> list[str]:
        return [one["metadata"]["labels"]["umbel.dev/environment"] for one in sets(hub, ready)]

    wait_for("the other's end", lambda: left() == ["vision"] * 2)  # boston has values of its own
    placements = hub.list(
        f"{CLUSTER}/v1beta1", "Placement", ready.namespace, "umbel.dev/environment"
    )
    assert len(list(placements)) == 2
    ready.until_ready("berlin", "boston")


def sets(hub: Api, federation: Federation) -> list[Object]:
    return list(hub.list(*SETS, federation.namespace))


def test_a_federation_that_goes_takes_its_environments_with_it(
    gone: Federation, hub: Api, spokes: Mapping[str, Api]
) -> None:
    wait_for("the executor", lambda: executors(spokes["berlin"], gone.names) == {"vision"})
    gone.delete()
    gone.until_gone()
    assert sets(hub, gone) == []
    for spoke in spokes.values():
        wait_for(
            "no namespace",
            lambda one=spoke: one.get("v1", "Namespace", gone.names.addon) is None,  # type: ignore[misc]
        )


def test_a_hub_whose_controller_is_off_says_so_and_goes_on_when_it_is_on(
    pods: Bed, declare: Declare
) -> None:
    pods.kill(CONTROLLER)
    try:
        waiting = declare(
            "ocm-environments-3", "off", asleep(runtime=runtime(environment("vision")))
        )
        told = waiting.until_said("EnvironmentsSent", "ManifestWorkReplicaSetOff")
        assert "enable the feature gate" in told["message"]
    finally:
        pods.restart(CONTROLLER)
    waiting.wait(lambda seen: condition(seen, "EnvironmentsSent").get("reason") == "Sending")


def test_a_batch_that_is_not_well_holds_the_next_one_back(
    declare: Declare, spokes: Mapping[str, Api]
) -> None:
    group = everywhere(kubernetes={"rollout": {"maxConcurrent": 1}})
    held = declare(
        "ocm-environments-4", "held", asleep(group, runtime=runtime(environment("vision")))
    )
    held.wait(lambda seen: "vision: on 0 of 2 clusters" in said(seen))
    wait_for("the first batch", lambda: any(executors(s, held.names) for s in spokes.values()))
    assert [executors(s, held.names) for s in spokes.values()].count({"vision"}) == 1
