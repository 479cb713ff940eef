"""The operator: federations as a resource of the hub, kept by whoever leads, each apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from testbed.api import Api
from testbed.bed import Bed
from testbed.pods import images
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import DEPLOYMENT, LEASE, Meet, operator_pods
from tests.clusters.ocm.stories import (
    ADDON,
    Declare,
    Federation,
    Person,
    asleep,
    everywhere,
    labelled,
    spec,
    traces_of,
)
from tests.clusters.stories import rolled_out

from umbel.targets.ocm.names import FINALIZER

pytestmark = pytest.mark.timeout(600)
TWIN = "ocm-twin"


def test_the_list_tells_how_a_federation_does(pods: Bed, hospitals: Federation) -> None:
    told = pods.kubectl("hub", "get", "federations", "-n", hospitals.namespace)
    head, line = told.splitlines()
    assert head.split() == ["NAME", "PHASE", "SITES", "RUNS", "ENDPOINT", "AGE"]
    endpoint = hospitals.seen()["status"]["endpoint"]["fleet"]
    assert line.split()[:5] == ["hospitals", "Ready", "2/2", "0", endpoint]


def test_a_federation_says_by_events_what_happened(hospitals: Federation) -> None:
    uid = hospitals.seen()["metadata"]["uid"]
    events = hospitals.hub.list("v1", "Event", hospitals.namespace)
    said = [(e["type"], e["reason"]) for e in events if e["involvedObject"].get("uid") == uid]
    assert ("Normal", "Ready") in said


def test_a_federation_waits_for_the_operator_before_it_goes(hospitals: Federation) -> None:
    assert FINALIZER in hospitals.seen()["metadata"]["finalizers"]


def test_a_change_is_seen_and_made(hospitals: Federation) -> None:
    before = hospitals.seen()["status"]["observedGeneration"]
    token = ("v1", "Secret", hospitals.names.user_secret("ada"), hospitals.namespace)
    hospitals.change(security={"users": [{"name": "ada", "role": "viewer"}]})
    seen = hospitals.until_ready("berlin", "boston")
    assert seen["status"]["observedGeneration"] == seen["metadata"]["generation"] > before
    assert hospitals.hub.get(*token) is not None
    hospitals.change(security={"users": []})
    eventually("the end of ada's token", lambda: hospitals.hub.get(*token) is None)


def test_when_the_operator_is_killed_midway_another_goes_on(hub: Api, declare: Declare) -> None:
    deployment = hub.path(*DEPLOYMENT[:2], DEPLOYMENT[3], DEPLOYMENT[2])
    hub.patch(deployment, {"spec": {"replicas": 2}})
    hub.wait(DEPLOYMENT, rolled_out, 120)
    leader = hub.wait(LEASE, lambda seen: seen["spec"].get("holderIdentity"))
    killed = leader["spec"]["holderIdentity"]
    federation = declare("ocm-orphan", "orphan", asleep())
    path = hub.path("v1", "Pod", DEPLOYMENT[3], killed)
    hub.request("DELETE", path, {"gracePeriodSeconds": 0})
    after = hub.wait(LEASE, lambda seen: seen["spec"].get("holderIdentity") not in ("", killed))
    assert after["spec"]["leaseTransitions"] > leader["spec"]["leaseTransitions"]
    federation.wait(lambda seen: len(seen.get("status", {}).get("sites") or ()) == 2)
    for cluster in ("berlin", "boston"):
        hub.wait((ADDON, "ManagedClusterAddOn", federation.names.addon, cluster), bool)
    hub.patch(deployment, {"spec": {"replicas": 1}})
    hub.wait(DEPLOYMENT, rolled_out, 120)
    left = {pod["metadata"]["name"] for pod in operator_pods(hub)}
    hub.wait(LEASE, lambda seen: seen["spec"].get("holderIdentity") in left)


def rendered(person: Person, document: Path) -> str:
    done = person.umbel("render", "-f", str(document), "--image", images.UMBEL)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def twin(
    pods: Bed, operator: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """Another federation of the same name, from the manifests that `umbel render` writes."""
    folder = tmp_path_factory.mktemp("rendered")
    federation = Federation(operator, TWIN, "hospitals")
    wanted = federation.resource(spec(everywhere(placement=labelled("gpu", "true"))))
    (folder / "federation.yaml").write_text(yaml.safe_dump(wanted))
    manifests = rendered(Person(folder / "home", federation), folder / "federation.yaml")
    (folder / "all.yaml").write_text(manifests)
    how = ("apply", "--server-side", "--force-conflicts", "-f", str(folder / "all.yaml"))
    pods.kubectl("hub", *how)
    yield federation
    federation.delete()
    federation.until_gone()
    operator.delete("v1", "Namespace", TWIN)


@pytest.fixture(scope="module", autouse=True)
def meanwhile(twin: Federation) -> Federation:
    """It comes up while the first stories are told."""
    return twin


def test_the_rendered_manifests_give_the_same_federation(twin: Federation) -> None:
    wanted = twin.resource(spec(everywhere(placement=labelled("gpu", "true"))))
    path = twin.hub.path(twin.key[0], "Federation", "default", "plainly")
    plain = {**wanted, "metadata": {"name": "plainly", "namespace": "default"}}
    stored = twin.hub.request(
        "PATCH",
        f"{path}?fieldManager=someone&dryRun=All",
        plain,
        Content_Type="application/apply-patch+yaml",
    )
    assert twin.seen()["spec"] == stored["spec"]
    twin.until_ready("berlin")


def test_two_federations_of_one_name_are_side_by_side(
    hospitals: Federation, twin: Federation, spokes: Mapping[str, Api]
) -> None:
    twin.until_ready("berlin")
    spaces = {space["metadata"]["name"] for space in spokes["berlin"].list("v1", "Namespace")}
    assert {hospitals.names.addon, twin.names.addon} <= spaces
    held = [f.secret(f.names.user_secret("owner"))["token"] for f in (hospitals, twin)]
    assert held[0] != held[1]


def test_the_token_of_one_tenant_opens_nothing_of_the_other(
    hospitals: Federation, twin: Federation, meet: Meet, tmp_path: Path
) -> None:
    twin.until_ready("berlin")
    assert meet(twin).umbel("status", "-n", "hospitals").returncode == 0
    token = hospitals.secret(hospitals.names.user_secret("owner"))["token"]
    authority = twin.secret(twin.names.user_secret("owner"))["ca.crt"]
    for name, content in (("token", token), ("ca.crt", authority)):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    control = twin.seen()["status"]["endpoint"]["control"]
    files = ("--ca", str(tmp_path / "ca.crt"), "--token-file", str(tmp_path / "token"))
    refused = Person(tmp_path / "home", twin).umbel("connect", "x", "--address", control, *files)
    assert refused.returncode != 0
    assert "401" in refused.stderr or "token" in refused.stderr


def test_a_deleted_federation_leaves_nothing(
    hub: Api, twin: Federation, spokes: Mapping[str, Api]
) -> None:
    twin.until_ready("berlin")
    marks = (TWIN, twin.names.addon)
    places = (hub, *spokes.values())
    assert len(traces_of(hub, *marks)) > 15
    assert len(traces_of(spokes["berlin"], *marks)) > 8
    twin.delete()
    twin.until_gone()
    hub.delete("v1", "Namespace", TWIN)
    left: list[list[str]] = []

    def gone() -> bool:
        left[:] = [traces_of(api, *marks) for api in places]
        return not any(left)

    eventually("the end of every trace", gone, 60, lambda: str(left))
