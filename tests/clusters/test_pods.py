"""Clusters with real nodes run real containers, under Open Cluster Management."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
from testbed.api import Api
from testbed.bed import Bed
from testbed.pods import cgroups, images, network
from testbed.pods.commands import CommandFailed
from testbed.pods.node import clean, leftovers
from testbed.pods.plan import GATEWAY, NodePlan
from testbed.waiting import eventually
from tests.clusters.conftest import traces
from tests.clusters.stories import (
    NAME,
    NODE_PORT,
    ask,
    container,
    deployment,
    names_of_pods,
    once,
    rolled_out,
    service,
)

pytestmark = pytest.mark.timeout(600)
WORK = "work.open-cluster-management.io/v1"
EATS = "x = [bytearray(b'1' * (1 << 20)) for _ in range(4096)]"
WHO_AM_I = """\
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
request = urllib.request.Request(
    f"https://{os.environ['KUBERNETES_SERVICE_HOST']}/apis/authentication.k8s.io/v1/selfsubjectreviews",
    json.dumps(review).encode(),
    {"Authorization": "Bearer " + open(folder + "token").read(), "Content-Type": "application/json"},
)
trust = ssl.create_default_context(cafile=folder + "ca.crt")
print(json.load(urllib.request.urlopen(request, context=trust))["status"]["userInfo"]["username"])
"""

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def berlin(pods: Bed) -> Iterator[Api]:
    with pods.api("berlin") as api:
        yield api


@pytest.fixture(scope="module")
def kubectl(pods: Bed) -> Kubectl:
    return lambda *words: pods.kubectl("berlin", *words)


@pytest.fixture(scope="module")
def address(berlin: Api) -> Iterator[str]:
    """A Deployment is rolled out behind a Service in berlin: the Service's address."""
    berlin.apply(deployment())
    made = berlin.apply(service())
    berlin.wait(("apps/v1", "Deployment", NAME, "default"), rolled_out, 120)
    yield made["spec"]["clusterIP"]
    berlin.delete("apps/v1", "Deployment", NAME, "default")
    berlin.delete("v1", "Service", NAME, "default")


def asked_from(plan: NodePlan, address: str) -> str:
    """Ask the service from a node; nothing if there is no answer."""
    argv = [*network.entering(plan.namespace), sys.executable, "-c", ask(f"http://{address}")]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def test_what_a_crashed_run_left_is_removed(pods: Bed, tmp_path: Path) -> None:
    before, there = traces(), leftovers()
    node = NodePlan("crashed", 99, 1, prefix="umbel-te")
    network.plug(node)
    member = [*cgroups.joining(cgroups.make(node.namespace)), "unshare", "--mount"]
    script = "mount -t tmpfs none /mnt && echo mounted && exec sleep infinity"
    with subprocess.Popen([*member, "sh", "-c", script], stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        assert left.stdout.readline() == b"mounted\n"
        assert node.namespace in leftovers(node.prefix)
        clean(tmp_path, node.prefix)
        assert left.wait() != 0
    assert leftovers(node.prefix) == []
    assert traces() == before
    assert leftovers() == there
    assert pods.nodes("hub")


def test_a_deployment_answers_over_its_service_from_every_node(
    pods: Bed, berlin: Api, address: str
) -> None:
    for node in pods.nodes("berlin"):
        names = names_of_pods(berlin)
        answer = eventually(
            "an answer of the service",
            lambda node=node: asked_from(node, address),  # type: ignore[misc]
            30,
        )
        assert answer in names


def test_logs_and_exec_work(kubectl: Kubectl, address: str) -> None:
    assert "it listens" in kubectl("logs", f"deployment/{NAME}")
    asking = ["wget", "-q", "-O", "-", f"http://{address}"]
    assert kubectl("exec", f"deployment/{NAME}", "--", *asking).startswith(NAME)


def test_an_image_says_which_packages_it_is_made_of(kubectl: Kubectl, address: str) -> None:
    assert address
    said = kubectl("exec", f"deployment/{NAME}", "--", "cat", f"/{images.CONTENTS}").split()
    names = {line.partition("_")[0] for line in said}
    assert names == set(images.PYTHON_PACKAGES)


def test_a_pod_reaches_the_api_as_itself(kubectl: Kubectl, address: str) -> None:
    assert address
    said = kubectl("exec", f"deployment/{NAME}", "--", "python3", "-c", WHO_AM_I)
    assert said.strip() == "system:serviceaccount:default:default"


def test_a_memory_limit_kills_the_container(berlin: Api) -> None:
    berlin.apply(once("greedy", container(EATS, resources={"limits": {"memory": "64Mi"}})))
    target = ("v1", "Pod", "greedy", "default")
    ended = berlin.wait(target, lambda pod: pod["status"].get("phase") == "Failed", 60)
    (state,) = ended["status"]["containerStatuses"]
    assert state["state"]["terminated"]["reason"] == "OOMKilled"
    berlin.delete(*target)


def test_a_rolling_restart_replaces_every_pod(berlin: Api, kubectl: Kubectl, address: str) -> None:
    assert address
    old = names_of_pods(berlin)
    kubectl("rollout", "restart", f"deployment/{NAME}")
    berlin.wait(("apps/v1", "Deployment", NAME, "default"), rolled_out, 120)
    assert not old & eventually("new pods", lambda: names_of_pods(berlin) - old)


def test_the_projects_own_image_runs(berlin: Api, kubectl: Kubectl) -> None:
    berlin.apply(once("umbel", {**container(""), "image": images.UMBEL, "args": ["--version"]}))
    target = ("v1", "Pod", "umbel", "default")
    ended = ("Succeeded", "Failed")
    berlin.wait(target, lambda pod: pod["status"].get("phase") in ended, 120)
    assert version("umbel") in kubectl("logs", "umbel")
    berlin.delete(*target)


def test_a_gpu_of_the_fleet_is_given_to_one_pod_at_a_time(berlin: Api) -> None:
    both = container("pass", resources={"limits": {"nvidia.com/gpu": "2"}})
    waits = container("import signal; signal.pause()", resources=both["resources"])
    berlin.apply(once("has-them", waits))
    has, wants = (("v1", "Pod", name, "default") for name in ("has-them", "wants-them"))
    berlin.wait(has, lambda pod: pod["status"].get("phase") == "Running")
    berlin.apply(once("wants-them", both))
    refused = berlin.wait(wants, lambda pod: pod["status"].get("conditions"))
    assert "Insufficient nvidia.com/gpu" in refused["status"]["conditions"][0]["message"]
    berlin.request(
        "DELETE", berlin.path("v1", "Pod", "default", "has-them"), {"gracePeriodSeconds": 0}
    )
    berlin.wait(wants, lambda pod: pod["status"].get("phase") == "Succeeded")
    berlin.delete(*wants)


def test_a_works_deployment_runs_on_every_spoke(
    pods: Bed, hub: Api, spokes: Mapping[str, Api]
) -> None:
    for name in spokes:
        manifests = {"workload": {"manifests": [deployment("sent", replicas=1)]}}
        meta = {"name": "sent", "namespace": name}
        hub.apply({"apiVersion": WORK, "kind": "ManifestWork", "metadata": meta, "spec": manifests})
    for name, spoke in spokes.items():
        spoke.wait(("apps/v1", "Deployment", "sent", "default"), rolled_out, 120)
        assert "it listens" in pods.kubectl(name, "logs", "deployment/sent")
        hub.delete(WORK, "ManifestWork", "sent", name)


@pytest.fixture(scope="module")
def central(pods: Bed, hub: Api) -> Iterator[str]:
    """A Deployment of the hub answers at a port of its node: the URL."""
    hub.apply(deployment("central", replicas=1))
    hub.apply(service("central", type="NodePort"))
    hub.wait(("apps/v1", "Deployment", "central", "default"), rolled_out, 120)
    (node,) = pods.nodes("hub")
    port = f"{node.address}:{NODE_PORT}"
    eventually("an answer at the node's port", lambda: asked_from(node, port), 30)
    yield f"http://{port}"
    hub.delete("apps/v1", "Deployment", "central", "default")
    hub.delete("v1", "Service", "central", "default")


def asked_by(kubectl: Kubectl, url: str) -> str:
    """Let a pod of berlin ask; nothing if there is no answer."""
    try:
        return kubectl("exec", f"deployment/{NAME}", "--", "python3", "-c", ask(url))
    except CommandFailed as error:
        assert "timed out" in error.words  # noqa: PT017  # silence, not a refusal
        return ""


def test_a_pod_of_a_spoke_reaches_a_node_port_of_the_hub(
    kubectl: Kubectl, address: str, central: str
) -> None:
    assert address
    assert asked_by(kubectl, central).startswith("central")


def heard(pods: Bed, cluster: str) -> bool:
    """Tell whether a node of berlin gets a connection to the API server of the cluster."""
    port = pods.layout.clusters[cluster].api
    script = f"import socket; socket.create_connection(('{GATEWAY}', {port}), timeout=2)"
    argv = [*network.entering(pods.nodes("berlin")[0].namespace), sys.executable, "-c", script]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def test_the_pods_of_a_spoke_that_is_cut_do_not_reach_the_hub(
    pods: Bed, kubectl: Kubectl, address: str, central: str
) -> None:
    assert heard(pods, "hub")
    pods.cut("berlin")
    try:
        assert asked_by(kubectl, central) == ""
        assert asked_by(kubectl, f"http://{address}").startswith(NAME)  # inside all is well
        assert not asked_from(pods.nodes("berlin")[0], central.removeprefix("http://"))
        assert not heard(pods, "hub")
        assert heard(pods, "berlin")  # its own API server is still there
    finally:
        pods.heal("berlin")
    assert eventually("the way to the hub", lambda: asked_by(kubectl, central)).startswith(
        "central"
    )
