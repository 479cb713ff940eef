"""What pods find in every cluster: names of services, and volumes for their claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.waiting import eventually
from tests.clusters.stories import PORT, RESOLVE, SERVES, container

pytestmark = pytest.mark.timeout(600)
KEEPS = "keeps"
ONCE_MORE = "open('/data/seen', 'a').write('x')"
STATEFUL_SET = ("apps/v1", "StatefulSet", KEEPS, "default")
CLAIM = ("v1", "PersistentVolumeClaim", f"data-{KEEPS}-0", "default")


def stateful_set() -> Object:
    mount = {"name": "data", "mountPath": "/data"}
    main = container(f"{ONCE_MORE}\n{SERVES}", volumeMounts=[mount])
    labels = {"app": KEEPS}
    spec = {
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
        "containers": [main],
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": KEEPS, "namespace": "default"},
        "spec": {
            "serviceName": KEEPS,
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


def service(name: str, **more: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": KEEPS}, "ports": [{"port": PORT}], **more},
    }


@pytest.fixture(scope="module", params=["hub", "boston"])
def cluster(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def api(pods: Bed, cluster: str) -> Iterator[Api]:
    with pods.api(cluster) as opened:
        yield opened


@pytest.fixture(scope="module")
def keeper(api: Api) -> Iterator[Object]:
    """A StatefulSet runs with a volume and two services: its first pod."""
    for one in (stateful_set(), service(KEEPS, clusterIP="None"), service("front")):
        api.apply(one)
    api.wait(STATEFUL_SET, lambda seen: seen["status"].get("availableReplicas") == 1, 120)
    pod = api.get("v1", "Pod", f"{KEEPS}-0", "default")
    assert pod is not None
    yield pod
    for name in (KEEPS, "front"):
        api.delete("v1", "Service", name, "default")


def test_a_pod_finds_services_and_pods_by_name(
    pods: Bed, api: Api, cluster: str, keeper: Object
) -> None:
    front = api.get("v1", "Service", "front", "default")
    assert front is not None
    wanted = {
        "front": front["spec"]["clusterIP"],
        "front.default.svc": front["spec"]["clusterIP"],
        "front.default.svc.cluster.local": front["spec"]["clusterIP"],
        KEEPS: keeper["status"]["podIP"],
        f"{KEEPS}-0.{KEEPS}.default.svc": keeper["status"]["podIP"],
    }
    for name, address in wanted.items():
        said = pods.kubectl(cluster, "exec", f"{KEEPS}-0", "--", "python3", "-c", RESOLVE, name)
        assert said.strip() == address


def test_a_name_outside_does_not_exist(pods: Bed, cluster: str, keeper: Object) -> None:
    assert keeper
    script = f"import socket\ntry: socket.getaddrinfo('example.org', 80)\nexcept socket.gaierror as e: print(e.errno == {-2})"
    said = pods.kubectl(cluster, "exec", f"{KEEPS}-0", "--", "python3", "-c", script)
    assert said.strip() == "True"


def test_a_volume_outlives_its_pod_and_goes_with_its_claim(
    pods: Bed, api: Api, cluster: str, keeper: Object
) -> None:
    uid = keeper["metadata"]["uid"]
    api.delete("v1", "Pod", f"{KEEPS}-0", "default")
    api.wait(
        ("v1", "Pod", f"{KEEPS}-0", "default"),
        lambda pod: pod["metadata"]["uid"] != uid and pod["status"].get("phase") == "Running",
    )
    show = ["exec", f"{KEEPS}-0", "--", "cat", "/data/seen"]
    eventually("a second visit", lambda: pods.kubectl(cluster, *show).strip() == "xx", 30)
    claim = api.get(*CLAIM)
    assert claim is not None
    volume = ("v1", "PersistentVolume", claim["spec"]["volumeName"], "")
    made = api.get(*volume)
    assert made is not None
    folder = Path(made["spec"]["local"]["path"])
    assert (folder / "seen").read_text() == "xx"
    api.delete(*STATEFUL_SET)
    api.delete(*CLAIM)
    eventually(
        "the end of the volume", lambda: api.get(*volume) is None and not folder.exists(), 60
    )
