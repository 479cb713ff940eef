"""Sites: each cluster with values of its own, several federations side by side, for long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.pods.commands import CommandFailed
from tests.clusters.ocm.conftest import Meet, Turning
from tests.clusters.ocm.stories import (
    CLUSTER,
    DIRECT,
    MIRRORED,
    PATIENCE_S,
    PROXY,
    TOLERATED,
    Declare,
    Federation,
    Person,
    asleep,
    condition,
    everywhere,
    label,
    labelled,
    site_pod,
)

from umbel.targets.ocm.sites import NODE

pytestmark = pytest.mark.timeout(600)
LOST = f"{CLUSTER}/unreachable"


def exec_of(deployment: Object) -> Object:
    found = deployment["spec"]["template"]["spec"]["containers"]
    return dict(next(one for one in found if one["name"] == "exec"))


def test_a_clusters_own_values_reach_its_pods(ward: Federation, spokes: Mapping[str, Api]) -> None:
    ward.until_ready("berlin")
    found = spokes["berlin"].get("apps/v1", "Deployment", NODE, ward.names.addon)
    assert found is not None
    pod, working = found["spec"]["template"]["spec"], exec_of(found)
    assert working["resources"]["limits"] == {"memory": "1Gi", "nvidia.com/gpu": "1"}
    assert working["resources"]["requests"]["cpu"] == "30m"
    assert pod["nodeSelector"] == {"kubernetes.io/hostname": "berlin-1"}
    assert TOLERATED in pod["tolerations"]
    assert {one["image"] for one in pod["containers"]} == {f"{MIRRORED}:dev"}
    told = {one["name"]: one["value"] for one in working["env"]}
    assert told["HTTPS_PROXY"] == told["HTTP_PROXY"] == PROXY
    assert told["NO_PROXY"] == f"{DIRECT},localhost,127.0.0.1"
    runs = site_pod(spokes["berlin"], ward.names)
    assert runs is not None
    assert runs["spec"]["nodeName"] == "berlin-1"


def test_an_app_reads_the_sites_own_folder_and_cannot_write_it(
    pods: Bed, ward: Federation, meet: Meet
) -> None:
    ward.until_ready("berlin")
    ended = meet(ward).runs(min_nodes=1)
    assert ended.status == "completed"
    assert ended.files == [2, 2, 2]
    where = ("exec", "-n", ward.names.addon, f"deployment/{NODE}", "-c", "exec")
    with pytest.raises(CommandFailed, match="Read-only file system"):
        pods.kubectl("berlin", *where, "--", "touch", "/data/c.csv")


def test_federations_train_side_by_side_on_one_cluster(
    turning: Turning, hospitals: Federation, owner: Person
) -> None:
    assert hospitals.names.addon != turning.federation.names.addon
    again = turning.person.connect()  # its authority may be another one by now
    assert again.returncode == 0, again.stderr
    beside = turning.person.starts(num_server_rounds=5, min_nodes=1, seconds=2.0)
    assert owner.runs().rounds == [[0, 1]] * 3
    assert turning.person.ends(beside).rounds == [[0]] * 5


def test_a_partition_stays_with_its_cluster(hub: Api, declare: Declare) -> None:
    group = everywhere(placement=labelled("shift", "off", "NotIn"))
    federation = declare("ocm-shifts", "shifts", asleep(group))

    def partitions(seen: Object) -> dict[str, int]:
        sites = seen.get("status", {}).get("sites") or ()
        return {site["name"]: site.get("partitionId") for site in sites}

    federation.wait(lambda seen: partitions(seen) == {"berlin": 0, "boston": 1})
    try:
        label(hub, "berlin", shift="off")
        federation.wait(lambda seen: partitions(seen) == {"boston": 1})
    finally:
        label(hub, "berlin", shift=None)
    federation.wait(lambda seen: partitions(seen) == {"berlin": 0, "boston": 1})


@pytest.fixture
def silent(pods: Bed, hub: Api) -> Iterator[str]:
    """The agent of a cluster is gone for so long that the hub counts the cluster as lost."""
    cluster = (f"{CLUSTER}/v1", "ManagedCluster", "berlin", "")
    path = hub.path(*cluster[:2], "", "berlin")
    before = hub.request("GET", path)["spec"]["leaseDurationSeconds"]
    hub.patch(path, {"spec": {"leaseDurationSeconds": 1}})
    pods.kill("berlin-agent")
    try:
        hub.wait(cluster, lambda seen: LOST in taints(seen), PATIENCE_S)
        yield "berlin"
    finally:
        pods.restart("berlin-agent")
        hub.patch(path, {"spec": {"leaseDurationSeconds": before}})
        available = "ManagedClusterConditionAvailable"
        hub.wait(cluster, lambda seen: condition(seen, available).get("status") == "True")


def taints(seen: Object) -> list[str]:
    return [taint["key"] for taint in seen["spec"].get("taints") or ()]


def test_an_agent_that_is_silent_takes_no_supernode_away(
    hospitals: Federation, owner: Person, spokes: Mapping[str, Api], request: pytest.FixtureRequest
) -> None:
    before = site_pod(spokes["berlin"], hospitals.names)
    assert before is not None
    request.getfixturevalue("silent")
    assert owner.runs().rounds == [[0, 1]] * 3
    after = site_pod(spokes["berlin"], hospitals.names)
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert hospitals.seen()["status"]["sitesText"] == "2/2"
