"""A network policy closes what it says: to strangers, on other ports, from other namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.pods.commands import CommandFailed
from testbed.waiting import eventually
from tests.clusters.stories import HARD, PORT, RESOLVE, SERVES, ask, container

pytestmark = pytest.mark.timeout(600)
SPACE = "policed"
BESIDE = "policed-beside"
OTHER_PORT = PORT + 1
SERVER = {"podSelector": {"matchLabels": {"app": "server"}}}
FRIENDS = {"podSelector": {"matchLabels": {"role": "friend"}}}
TWO_PORTS = f"""\
import threading
{SERVES.replace("http.server.Thr", "s = http.server.Thr").replace(".serve_forever()", "")}
threading.Thread(target=http.server.ThreadingHTTPServer(("", {OTHER_PORT}), Answers).serve_forever).start()
s.serve_forever()
"""

Reaches = Callable[..., bool]


def pod(name: str, space: str, script: str, **labels: str) -> Object:
    ports = [{"name": "main", "containerPort": PORT}] if "app" in labels else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [container(script, ports=ports, securityContext=HARD)],
        },
    }


@pytest.fixture(scope="module")
def boston(pods: Bed) -> Iterator[Api]:
    """A server with two ports, a friend, a stranger, and a friend in another namespace."""
    waits = "import signal; signal.pause()"
    with pods.api("boston") as api:
        for space in (SPACE, BESIDE):
            api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        api.apply(pod("server", SPACE, TWO_PORTS, app="server"))
        api.apply(pod("friend", SPACE, waits, role="friend"))
        api.apply(pod("stranger", SPACE, waits, role="stranger"))
        api.apply(pod("friend", BESIDE, waits, role="friend"))
        front = {"selector": {"app": "server"}, "ports": [{"port": PORT}]}
        meta = {"name": "server", "namespace": SPACE}
        api.apply({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": front})
        for space, name in (
            (SPACE, "server"),
            (SPACE, "friend"),
            (SPACE, "stranger"),
            (BESIDE, "friend"),
        ):
            api.wait(
                ("v1", "Pod", name, space), lambda one: one["status"].get("phase") == "Running"
            )
        yield api
        for space in (SPACE, BESIDE):
            api.delete("v1", "Namespace", space)
        eventually(
            "their end", lambda: not any(api.get("v1", "Namespace", n) for n in (SPACE, BESIDE))
        )


@pytest.fixture(scope="module")
def reaches(pods: Bed, boston: Api) -> Reaches:
    """Tell whether a pod gets an answer of the server, by its own address or by its service."""
    server = boston.get("v1", "Pod", "server", SPACE)
    assert server is not None
    address = server["status"]["podIP"]

    def look(name: str, space: str = SPACE, port: int = PORT, host: str = address) -> bool:
        asking = ["exec", "-n", space, name, "--", "python3", "-c", ask(f"http://{host}:{port}")]
        try:
            return pods.kubectl("boston", *asking).strip() == "server"
        except CommandFailed:
            return False

    return look


@pytest.fixture
def closed(boston: Api) -> Iterator[Callable[..., None]]:
    """Let a policy hold for the time of a test."""

    def close(**spec: Any) -> None:
        boston.apply(
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": "closed", "namespace": SPACE},
                "spec": spec,
            }
        )

    yield close
    boston.delete("networking.k8s.io/v1", "NetworkPolicy", "closed", SPACE)


def test_a_policy_lets_in_whom_it_names_on_the_port_it_names(
    reaches: Reaches, closed: Callable[..., None]
) -> None:
    by_name = f"server.{SPACE}.svc"
    for way in ({"port": PORT}, {"port": OTHER_PORT}, {"host": by_name}):
        eventually("an open port", lambda way=way: reaches("stranger", **way), 30)  # type: ignore[misc]
    closed(**SERVER, ingress=[{"from": [FRIENDS], "ports": [{"port": "main"}]}])
    eventually("a closed port", lambda: not reaches("stranger"), 30)
    assert reaches("friend")
    assert reaches("friend", host=by_name)
    assert not reaches("stranger", host=by_name)
    assert not reaches("friend", port=OTHER_PORT)
    assert not reaches("friend", space=BESIDE)


def test_without_its_policy_a_port_is_open_again(reaches: Reaches) -> None:
    eventually("an open port", lambda: reaches("stranger"), 30)
    assert reaches("friend", space=BESIDE)


def test_a_pod_may_be_kept_from_asking(
    pods: Bed, reaches: Reaches, closed: Callable[..., None]
) -> None:
    dns = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    closed(
        podSelector={"matchLabels": {"role": "stranger"}},
        policyTypes=["Egress"],
        egress=[{"to": [dns], "ports": [{"protocol": "UDP", "port": 8053}]}],
    )
    by_name = f"server.{SPACE}.svc"
    eventually("a closed way", lambda: not reaches("stranger"), 30)
    look_up = ["exec", "-n", SPACE, "stranger", "--", "python3", "-c", RESOLVE, by_name]
    assert pods.kubectl("boston", *look_up).strip()  # it may still ask for names
    assert not reaches("stranger", host=by_name)
    assert reaches("friend", host=by_name)
