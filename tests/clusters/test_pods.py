"""A cluster with real nodes runs real containers, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from testbed.api import Api, Object
from testbed.errors import CannotRun
from testbed.pods import cgroups, images, network
from testbed.pods.alone import Alone, alone
from testbed.pods.commands import run
from testbed.pods.node import assert_can_run, clean, leftovers, load_images
from testbed.pods.plan import GATEWAY, NodePlan
from testbed.programs import cache, program
from testbed.waiting import eventually

pytestmark = pytest.mark.timeout(600)
NAME = "answering"
PORT = 8000
KUBELET = 10250
SERVES = f"""\
import http.server, os, sys
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())
print("it listens", flush=True)
http.server.ThreadingHTTPServer(("", {PORT}), Answers).serve_forever()
"""
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
HARD = {
    "runAsNonRoot": True,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class Traces:
    """What a test bed could leave on a machine."""

    mounts: str
    links: str
    rules: str
    namespaces: tuple[str, ...]
    groups: tuple[str, ...]


def traces() -> Traces:
    # Other programs' own groups may come and go deeper down: the first level is ours to compare.
    groups = [str(path) for path in cgroups.ROOT.glob("*/*") if path.is_dir()]
    folder = network.NAMESPACES
    return Traces(
        Path("/proc/self/mounts").read_text(),
        run(["ip", "-o", "link"]),
        run(["iptables-save"]),
        tuple(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else (),
        tuple(sorted(groups)),
    )


def container(script: str, **more: Any) -> Object:
    return {
        "name": "main",
        "image": images.PYTHON,
        "imagePullPolicy": "Never",
        "args": ["-c", script],
        "securityContext": HARD,
        **more,
    }


def deployment(replicas: int = 2) -> Object:
    probe = {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1}
    answering = container(SERVES, ports=[{"containerPort": PORT}], readinessProbe=probe)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {
                "metadata": {"labels": {"app": NAME}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [answering]},
            },
        },
    }


def service() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"selector": {"app": NAME}, "ports": [{"port": 80, "targetPort": PORT}]},
    }


def rolled_out(seen: Object) -> bool:
    status, wanted = seen.get("status", {}), seen["spec"]["replicas"]
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
    fresh: bool = status.get("observedGeneration") == seen["metadata"]["generation"]
    return fresh and counts == [wanted] * 3


def names_of_pods(api: Api) -> set[str]:
    found = api.list("v1", "Pod", "default", f"app={NAME}")
    return {pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


@pytest.fixture(scope="module")
def before(programs: None) -> Traces:  # noqa: ARG001
    try:
        assert_can_run()
    except CannotRun as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{error.fact} ({error.hint})")
    return traces()


@pytest.fixture(scope="module")
def archive() -> Path:
    return images.build(cache() / "images", project=None)


@pytest.fixture(scope="module")
def lone(
    before: Traces, archive: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Alone]:
    """One cluster of two nodes."""
    with alone(tmp_path_factory.mktemp("bed") / "s", archive, nodes=2) as running:
        yield running
    assert leftovers() == []
    assert traces() == before


@pytest.fixture(scope="module")
def api(lone: Alone) -> Iterator[Api]:
    with Api(lone.cluster.kubeconfig) as opened:
        yield opened


@pytest.fixture(scope="module")
def kubectl(lone: Alone) -> Callable[..., str]:
    def call(*words: str) -> str:
        return run([str(program("kubectl")), f"--kubeconfig={lone.cluster.kubeconfig}", *words])

    return call


@pytest.fixture(scope="module")
def address(api: Api) -> str:
    """A Deployment is rolled out behind a Service: the Service's address."""
    api.apply(deployment())
    made = api.apply(service())
    api.wait(("apps/v1", "Deployment", NAME, "default"), rolled_out, 120)
    given: str = made["spec"]["clusterIP"]
    return given


def asked_from(namespace: str, address: str) -> str:
    """Ask the service from a node; nothing if there is no answer."""
    script = f"import urllib.request as u; print(u.urlopen('http://{address}', timeout=3).read().decode())"
    argv = [*network.entering(namespace), sys.executable, "-c", script]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def test_what_a_crashed_run_left_is_removed(before: Traces, tmp_path: Path) -> None:
    node = NodePlan("crashed", 7, 1)
    network.plug(node)
    member = [*cgroups.joining(cgroups.make(node.namespace)), "unshare", "--mount"]
    script = "mount -t tmpfs none /mnt && echo mounted && exec sleep infinity"
    with subprocess.Popen([*member, "sh", "-c", script], stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        assert left.stdout.readline() == b"mounted\n"
        assert node.namespace in leftovers()
        clean(tmp_path)
        assert left.wait() != 0
    assert leftovers() == []
    assert traces() == before


def test_a_deployment_answers_over_its_service_from_every_node(
    lone: Alone, api: Api, address: str
) -> None:
    for node in lone.nodes:
        names = names_of_pods(api)
        answer = eventually(
            "an answer of the service",
            lambda node=node: asked_from(node.plan.namespace, address),  # type: ignore[misc]
            30,
        )
        assert answer in names


def test_logs_and_exec_work(kubectl: Callable[..., str], address: str) -> None:
    assert "it listens" in kubectl("logs", f"deployment/{NAME}")
    ask = ["wget", "-q", "-O", "-", f"http://{address}"]
    assert kubectl("exec", f"deployment/{NAME}", "--", *ask).startswith(NAME)


def test_a_pod_reaches_the_api_as_itself(kubectl: Callable[..., str], address: str) -> None:
    assert address
    said = kubectl("exec", f"deployment/{NAME}", "--", "python3", "-c", WHO_AM_I)
    assert said.strip() == "system:serviceaccount:default:default"


def test_a_memory_limit_kills_the_container(api: Api) -> None:
    greedy = container(EATS, resources={"limits": {"memory": "64Mi"}})
    spec = {"restartPolicy": "Never", "containers": [greedy]}
    meta = {"name": "greedy", "namespace": "default"}
    api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    ended = api.wait(
        ("v1", "Pod", "greedy", "default"), lambda pod: pod["status"].get("phase") == "Failed", 60
    )
    (state,) = ended["status"]["containerStatuses"]
    assert state["state"]["terminated"]["reason"] == "OOMKilled"
    api.delete("v1", "Pod", "greedy", "default")


def test_a_rolling_restart_replaces_every_pod(
    api: Api, kubectl: Callable[..., str], address: str
) -> None:
    assert address
    old = names_of_pods(api)
    kubectl("rollout", "restart", f"deployment/{NAME}")
    api.wait(("apps/v1", "Deployment", NAME, "default"), rolled_out, 120)
    assert not old & eventually("new pods", lambda: names_of_pods(api) - old)


def reaches(namespace: str, host: str, port: int) -> bool:
    script = f"import socket; socket.create_connection(('{host}', {port}), timeout=2)"
    argv = [*network.entering(namespace), sys.executable, "-c", script]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def test_a_node_can_be_cut_off_and_healed(lone: Alone) -> None:
    first, second = (node.plan for node in lone.nodes)
    assert reaches(second.namespace, first.address, KUBELET)
    network.cut(second)
    assert not reaches(second.namespace, first.address, KUBELET)
    assert not reaches(second.namespace, GATEWAY, lone.cluster.port)
    network.heal(second)
    assert eventually("the healed link", lambda: reaches(second.namespace, first.address, KUBELET))
    lone.pods.wait(lone.cluster, lone.nodes[1])


def test_the_projects_own_image_runs(lone: Alone, api: Api, kubectl: Callable[..., str]) -> None:
    load_images(lone.pods.state, images.build(cache() / "images"))
    wanted = {**container(""), "image": images.UMBEL, "args": ["--version"]}
    spec = {"restartPolicy": "Never", "containers": [wanted]}
    meta = {"name": "umbel", "namespace": "default"}
    api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    target = ("v1", "Pod", "umbel", "default")
    api.wait(target, lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"), 120)
    assert version("umbel") in kubectl("logs", "umbel")
