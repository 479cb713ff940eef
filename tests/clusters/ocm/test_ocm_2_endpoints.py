"""Ways in: the same federation behind a load balancer, a gateway and an ingress, one after the other.

No balancer, gateway or ingress controller runs on the bed. The tests play them: they give the
Service its address, which kube-proxy then serves, and pass TLS on by name as the routes say.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.pods import dns, network
from testbed.pods.commands import run
from testbed.pods.plan import SWITCH
from testbed.pods.relay import inside
from testbed.waiting import eventually
from tests.clusters.ocm.passing import Passage, Routes
from tests.clusters.ocm.stories import (
    ADDON,
    HUB_ADDRESS,
    Federation,
    Person,
    condition,
    site_pod,
)
from tests.clusters.stories import rolled_out

from umbel.agent.pod.places import CONTROL_PORT, FLEET_PORT

pytestmark = pytest.mark.timeout(600)
SPACE, NAME = "ocm-doors", "doors"
FLEET, CONTROL = "fleet.example.org", "control.example.org"
PORT = 443
GATEWAY = "gateway.networking.k8s.io"
HOSTS = {"fleetHost": FLEET, "controlHost": CONTROL}
ROUTE = (f"{GATEWAY}/v1", "TLSRoute", f"{NAME}-fleet", SPACE)
INGRESS = ("networking.k8s.io/v1", "Ingress", NAME, SPACE)
KNOWS = 'mount --bind "$0" /etc/hosts && exec "$@"'  # for this one process


@pytest.fixture(scope="module")
def routes(hub: Api) -> Iterator[None]:
    """The hub serves TLSRoutes as the Gateway API's standard channel does since 1.5: `v1` alone."""
    text, number = {"type": "string"}, {"type": "integer"}
    parent = _form(name=text, namespace=text)
    rule = _form(backendRefs=_list(_form(name=text, port=number)))
    wanted = _form(parentRefs=_list(parent), hostnames=_list(text), rules=_list(rule))
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions: list[Object] = [
        {
            "name": name,
            "served": name == "v1",
            "storage": name == "v1",
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": _form(spec=wanted, status=anything)},
        }
        for name in ("v1", "v1alpha2")
    ]
    names = {"kind": "TLSRoute", "plural": "tlsroutes", "singular": "tlsroute"}
    about = {"api-approved.kubernetes.io": "https://example.org"}
    definition = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"tlsroutes.{GATEWAY}")
    hub.apply(
        {
            "apiVersion": definition[0],
            "kind": definition[1],
            "metadata": {"name": definition[2], "annotations": about},
            "spec": {"group": GATEWAY, "scope": "Namespaced", "names": names, "versions": versions},
        }
    )
    yield
    hub.delete(*definition)
    eventually("the end of TLSRoutes", lambda: hub.get(*definition) is None)


def _form(**fields: Object) -> Object:
    return {"type": "object", "properties": fields}


def _list(item: Object) -> Object:
    return {"type": "array", "items": item}


@pytest.fixture(scope="module")
def names_known(spokes: Mapping[str, Api]) -> Iterator[None]:
    """Pods in boston find the hub's names, as with a name server of the company."""
    boston, deployment = spokes["boston"], ("apps/v1", "Deployment", dns.NAME, dns.NAMESPACE)
    for one in dns.objects({FLEET: HUB_ADDRESS}):  # sites need no other
        boston.apply(one)
    boston.wait(deployment, _rolled_out)
    yield
    for one in dns.objects():
        boston.apply(one)
    boston.wait(deployment, _rolled_out)


def _rolled_out(seen: Object) -> bool:
    return rolled_out({**seen, "spec": {"replicas": 1, **seen["spec"]}})


@pytest.fixture(scope="module")
def passage(pods: Bed) -> Iterator[Passage]:
    """Somebody passes TLS on at the hub's own address."""
    with pods.api() as api:
        made = Passage(Routes(api, "edge"), pods.nodes("hub")[0].namespace)
        with made.serving(HUB_ADDRESS, PORT):
            yield made


@dataclass(frozen=True)
class Caller(Person):
    """Somebody whose machine knows the hub's names."""

    def umbel(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.home.mkdir(parents=True, exist_ok=True)
        hosts = self.home / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{HUB_ADDRESS} {FLEET} {CONTROL}\n")
        knowing = ["unshare", "--mount", "sh", "-c", KNOWS, str(hosts)]
        argv = [*network.entering(SWITCH), *knowing, sys.executable, "-m", "umbel", *words]
        env = {**self.environment, "UMBEL_HOME": str(self.home), "NO_COLOR": "1"}
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, check=False, timeout=300
        )


@pytest.fixture(scope="module")
def caller(doors: Federation, tmp_path_factory: pytest.TempPathFactory) -> Caller:
    return Caller(tmp_path_factory.mktemp("caller") / "home", doors)


def trains(caller: Caller) -> None:
    """A short run with boston completes, over the doors that the federation has now."""
    last = [""]

    def connected() -> bool:
        done = caller.connect()
        last[0] = done.stderr
        return done.returncode == 0

    eventually("a certificate with the new names", connected, 150, lambda: last[0])
    ended = caller.runs(min_nodes=1)
    assert ended.status == "completed"
    assert ended.rounds == [[0]] * 3


def test_a_federation_says_that_it_waits_for_its_load_balancer(
    doors: Federation, routes: None, names_known: None
) -> None:
    del routes, names_known  # they take their time meanwhile
    said = doors.until_said("EndpointKnown", "EndpointPending")
    assert said["status"] == "False"
    assert f"Service {NAME} waits for the address" in said["message"]
    assert f"kubectl -n {SPACE} describe service {NAME}" in said["message"]
    seen = doors.seen()
    assert condition(seen, "Ready")["reason"] == "EndpointPending"
    assert seen["status"]["phase"] == "Progressing"
    assert doors.hub.get(ADDON, "ManagedClusterAddOn", doors.names.addon, "boston") is None


def test_sites_and_people_come_in_by_the_balancers_address(
    pods: Bed, doors: Federation, caller: Caller
) -> None:
    given = {"loadBalancer": {"ingress": [{"ip": HUB_ADDRESS, "ipMode": "VIP"}]}}
    path = doors.hub.path("v1", "Service", SPACE, NAME)
    doors.hub.patch(f"{path}/status", {"status": given})
    doors.until_ready("boston")
    assert doors.seen()["status"]["endpoint"] == {
        "fleet": f"{HUB_ADDRESS}:{FLEET_PORT}",
        "control": f"{HUB_ADDRESS}:{CONTROL_PORT}",
    }
    node = pods.nodes("hub")[0].namespace
    rules = run([*network.entering(node), "iptables-save", "-t", "nat"]).splitlines()
    for port in (FLEET_PORT, CONTROL_PORT):  # nobody listens there: kube-proxy serves it
        served = [f"-d {HUB_ADDRESS}/32", f"--dport {port} ", f"{SPACE}/{NAME}", "KUBE-EXT-"]
        assert any(all(word in rule for word in served) for rule in rules)
    trains(caller)


def behind(federation: Federation, service: Object) -> None:
    """Declare another way in."""
    empty: Object = {"gateway": None, "gatewayNamespace": None, "className": None}
    federation.change(superlink={"kubernetes": {"service": {**empty, **service}}})


def test_a_route_that_no_gateway_has_taken_is_said(doors: Federation, passage: Passage) -> None:
    behind(doors, {"type": "Gateway", **HOSTS, "gateway": "edge", "gatewayNamespace": "infra"})
    said = doors.until_said("EndpointKnown", "RoutePending")
    assert f"TLSRoute {NAME}-" in said["message"]
    assert "gateway infra/edge" in said["message"]
    for name in (f"{NAME}-fleet", f"{NAME}-control"):
        accept(doors.hub, name)
    doors.wait(lambda seen: not condition(seen, "EndpointKnown"))
    eventually("a site at the new door", lambda: ("TLSRoute", FLEET) in passage.passed)
    assert not passage.refused


def accept(hub: Api, name: str) -> None:
    """Say of a route what a gateway says that has taken it."""
    yes = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}
    parent = {"parentRef": {"name": "edge", "namespace": "infra"}, "conditions": [yes]}
    path = hub.path(ROUTE[0], ROUTE[1], SPACE, name)
    hub.patch(f"{path}/status", {"status": {"parents": [parent]}})


def test_a_site_comes_in_through_the_gateway_by_name(
    doors: Federation, caller: Caller, passage: Passage
) -> None:
    doors.until_ready("boston")
    assert doors.seen()["status"]["endpoint"] == {
        "fleet": f"{FLEET}:{PORT}",
        "control": f"{CONTROL}:{PORT}",
    }
    trains(caller)
    assert {("TLSRoute", FLEET), ("TLSRoute", CONTROL)} <= set(passage.passed)


def shake(name: str, authority: bytes) -> Any:
    """Shake hands with who stands behind a name at the gateway; give its certificate."""
    trust = ssl.create_default_context(cadata=authority.decode())
    with inside(SWITCH):
        plain = socket.create_connection((HUB_ADDRESS, PORT), timeout=10)
    with plain, trust.wrap_socket(plain, server_hostname=name) as secured:
        return secured.getpeercert()


def test_tls_ends_in_the_gate_and_a_stranger_gets_nothing(
    doors: Federation, passage: Passage
) -> None:
    doors.until_ready("boston")
    authority = doors.secret(doors.names.user_secret("owner"))["ca.crt"]
    for name in (FLEET, CONTROL):
        assert ("DNS", name) in shake(name, authority)["subjectAltName"]
    before = len(passage.passed)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake("stranger.example.org", authority)
    assert passage.refused == ["stranger.example.org"]
    assert len(passage.passed) == before


def test_an_ingress_that_passes_tls_on_serves_the_same_names(
    doors: Federation, caller: Caller, passage: Passage, spokes: Mapping[str, Api]
) -> None:
    before = site_pod(spokes["boston"], doors.names)
    behind(doors, {"type": "Ingress", **HOSTS, "className": "edge"})
    doors.hub.wait(INGRESS, bool)
    eventually("the end of the route", lambda: doors.hub.get(*ROUTE) is None)
    passed = len(passage.passed)
    passage.hang_up()  # nobody goes on by the way of before
    trains(caller)
    assert set(passage.passed[passed:]) == {("Ingress", FLEET), ("Ingress", CONTROL)}
    doors.until_ready("boston")
    after = site_pod(spokes["boston"], doors.names)
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]  # its door has the same name
