"""Bad input: each mistake is a condition with its reason and what to do, and leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from tests.clusters.ocm.conftest import make_namespace, operator_pods
from tests.clusters.ocm.stories import (
    ADDON,
    VERSION,
    Declare,
    Federation,
    asleep,
    condition,
    everywhere,
    labelled,
    spec,
)

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kubeconfig import find
from umbel.model.federation import Federation as Document
from umbel.targets.ocm.install import OPERATOR
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.obstacles import Obstacles, OcmMissing
from umbel.targets.ocm.settings import OcmSettings

pytestmark = pytest.mark.timeout(600)
SPACE = "ocm-mistakes"
ROLES = "rbac.authorization.k8s.io/v1"


@pytest.fixture(autouse=True)
def the_operator_stays_well(operator: Api) -> Iterator[None]:
    """Whatever people write, the operator goes on."""

    def state() -> dict[str, int]:
        return {
            pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"]
            for pod in operator_pods(operator)
        }

    before = state()
    yield
    assert state() == before


def test_an_unknown_cluster_set_is_named(declare: Declare) -> None:
    group = everywhere(placement={"clusterSets": ["nobodys"]})
    federation = declare(SPACE, "unknown-set", asleep(group))
    said = federation.until_said("ClustersChosen", "UnknownClusterSet")
    assert "'nobodys'" in said["message"]
    assert "kubectl get managedclustersets" in said["message"]
    ready = federation.until_said("Ready", "UnknownClusterSet")
    assert ready["status"] == "False"


def test_a_missing_binding_is_named_and_healed_by_hand(hub: Api, declare: Declare) -> None:
    group = everywhere(placement={"clusterSets": ["default"]})
    federation = declare(SPACE, "unbound", asleep(group))
    said = federation.until_said("ClustersChosen", "BindingMissing")
    assert f"clusteradm clusterset bind default --namespace {SPACE}" in said["message"]
    hub.apply(
        {
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "default", "namespace": SPACE},
            "spec": {"clusterSet": "default"},
        }
    )
    federation.wait(lambda seen: seen["status"].get("sitesWanted") == 2)


def test_a_placement_that_matches_nothing_is_said(declare: Declare) -> None:
    federation = declare(SPACE, "nothing", asleep(everywhere(placement=labelled("no-such"))))
    said = federation.until_said("ClustersChosen", "NothingMatches")
    assert "group all" in said["message"]
    assert "--show-labels" in said["message"]
    assert federation.seen()["status"]["sitesText"] == "0/0"


def plain_service(name: str) -> Object:
    ports = [{"name": "web", "port": 80}]
    meta = {"name": name, "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": ports}}


def test_a_name_that_somebody_else_has_is_not_taken(hub: Api, declare: Declare) -> None:
    make_namespace(hub, SPACE)
    hub.apply(plain_service("taken"))
    federation = declare(SPACE, "taken", asleep())
    said = federation.until_said("Ready", "NameTaken")
    assert "Service taken" in said["message"]
    assert "another name" in said["message"]
    service = hub.get("v1", "Service", "taken", SPACE)
    assert service is not None
    assert [port["name"] for port in service["spec"]["ports"]] == ["web"]
    assert hub.get("apps/v1", "StatefulSet", federation.names.hub, SPACE) is None
    assert hub.get(ADDON, "ClusterManagementAddOn", federation.names.addon) is None
    federation.delete()
    federation.until_gone()
    assert hub.get("v1", "Service", "taken", SPACE) is not None  # it was never ours
    hub.delete("v1", "Service", "taken", SPACE)


def test_an_image_that_cannot_be_had_is_said(declare: Declare) -> None:
    wanted = spec(everywhere(placement=labelled("gpu", "true")))
    wanted["runtime"]["image"]["name"] = "localhost/nobody-built-it:1"
    federation = declare(SPACE, "imageless", wanted)
    ended = lambda seen: "ErrImageNeverPull" in condition(seen, "HubAvailable").get("message", "")  # noqa: E731
    seen = federation.wait(ended)
    assert condition(seen, "HubAvailable")["reason"] == "SuperlinkFailing"
    assert "localhost/nobody-built-it:1" in condition(seen, "HubAvailable")["message"]
    assert seen["status"]["phase"] == "Down"


def test_settings_that_are_too_long_for_a_cluster_are_said(declare: Declare) -> None:
    group = everywhere(data={"nodeConfig": {f"key-{n}": "x" * 200 for n in range(40)}})
    federation = declare(SPACE, "wordy", asleep(group))
    said = federation.until_said("Ready", "SettingsTooLong")
    assert "nodeConfig" in said["message"]


def test_a_federation_that_is_edited_while_it_goes_still_goes(hub: Api, declare: Declare) -> None:
    federation = declare(SPACE, "edited", asleep())
    federation.wait(lambda seen: seen.get("status", {}).get("sitesWanted") == 2)
    hold = f"{VERSION.partition('/')[0]}/held-by-a-test"
    path = hub.path(VERSION, "Federation", SPACE, "edited")
    mine = federation.seen()["metadata"]["finalizers"]
    hub.patch(path, {"metadata": {"finalizers": [*mine, hold]}})
    federation.delete()
    federation.change(groups=[{"name": "other", "on": "ocm"}], security={"users": [{"name": "x"}]})
    seen = federation.wait(lambda seen: seen["metadata"]["finalizers"] == [hold])
    assert seen["spec"]["groups"][0]["name"] == "other"
    for kind in ("StatefulSet",):
        assert hub.get("apps/v1", kind, federation.names.hub, SPACE) is None
    assert hub.get("v1", "Secret", federation.names.user_secret("x"), SPACE) is None
    assert hub.get(ADDON, "ClusterManagementAddOn", federation.names.addon) is None
    hub.patch(path, {"metadata": {"finalizers": []}})
    federation.until_gone()


@pytest.fixture
def narrowed(hub: Api) -> Iterator[None]:
    """The operator may not make network policies for a while."""
    name = f"{OPERATOR}-federations"
    path = hub.path(ROLES, "ClusterRole", "", name)
    role = hub.request("GET", path)
    rules = [rule for rule in role["rules"] if "networkpolicies" not in rule["resources"]]
    looks = {
        "apiGroups": ["networking.k8s.io"],
        "resources": ["networkpolicies", "ingresses"],
        "verbs": ["get", "list", "watch"],
    }
    hub.patch(path, {"rules": [*rules, looks]})
    yield
    hub.patch(path, {"rules": role["rules"]})


def test_a_missing_right_is_named(hub: Api, declare: Declare, narrowed: None) -> None:
    del narrowed
    federation = declare(SPACE, "rightless", asleep(everywhere(placement=labelled("no-such"))))
    said = federation.until_said("Ready", "KubeRefused")
    assert "networkpolicies" in said["message"]
    assert "docs/guides/ocm/install.md" in said["message"]
    events = hub.list("v1", "Event", SPACE)
    uid = federation.seen()["metadata"]["uid"]
    told = [e for e in events if e["involvedObject"].get("uid") == uid and e["type"] == "Warning"]
    assert any("networkpolicies" in event["message"] for event in told)


def test_with_the_right_given_it_goes_on(declare: Declare) -> None:
    federation = declare(SPACE, "rightless", asleep(everywhere(placement=labelled("no-such"))))
    federation.until_said("ClustersChosen", "NothingMatches")


async def test_a_cluster_without_open_cluster_management_is_refused(bed: Bed) -> None:
    names = Names("default", "a")
    document = Document.model_validate({"metadata": {"name": "a"}, "spec": asleep()})
    async with Kube(find(bed.layout.kubeconfig("berlin"))) as kube:
        assert await kube.serves(kinds.CONFIG_MAP)
        obstacles = Obstacles(kube, Cache(kube, [], lambda *_: None), names, OcmSettings())
        with pytest.raises(OcmMissing) as refused:
            await obstacles.look(document)
    assert "Open Cluster Management" in str(refused.value)
    assert "clusteradm init" in refused.value.hint


def test_all_of_it_is_gone_afterwards(hub: Api, declare: Declare) -> None:
    federation: Federation = declare(SPACE, "last", asleep(everywhere(placement=labelled("x"))))
    federation.until_said("ClustersChosen", "NothingMatches")
    federation.delete()
    federation.until_gone()
    for kind, version in (("StatefulSet", "apps/v1"), ("Secret", "v1"), ("ConfigMap", "v1")):
        left = hub.list(version, kind, SPACE, f"umbel.dev/federation={federation.names.addon}")
        assert not list(left)
