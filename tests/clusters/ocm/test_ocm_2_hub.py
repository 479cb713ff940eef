"""The hub side: one pod, closed but for the gate's two doors, that outlives its own parts."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from testbed.api import Api, Object, Refused
from testbed.bed import Bed
from testbed.pods import network
from testbed.pods.commands import CommandFailed
from testbed.pods.plan import SWITCH
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import Turning
from tests.clusters.ocm.stories import (
    NOWHERE,
    Declare,
    Federation,
    Person,
    asleep,
    everywhere,
    labelled,
    spec,
)
from tests.clusters.stories import container

from umbel.agent.pod.places import CONTROL_PORT, FLEET_PORT, HEALTH_PORTS, RUNTIME_PORT
from umbel.model.federation import Federation as Document
from umbel.targets.ocm.hub import Hub, objects
from umbel.targets.ocm.upkeep import BROUGHT

pytestmark = pytest.mark.timeout(600)
KILLS = """\
import os, pathlib, signal
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if b"umbel.agent.pod.roles" in path.read_bytes():
        os.kill(int(path.parent.name), signal.SIGKILL)
"""
DIALS = "import socket; socket.create_connection(('{}', {}), timeout=2); print('open')"
ASKS = """\
import http.client, ssl
trust = ssl.create_default_context()
trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
ask = http.client.HTTPSConnection("{0}", {1}, timeout=5, context=trust)
ask.request("{2}", "{3}")
print(ask.getresponse().status)
"""
PLAIN = """\
import http.client
ask = http.client.HTTPConnection("{0}", {1}, timeout=5)
ask.request("GET", "/")
print(ask.getresponse().status)
"""


@pytest.fixture(scope="module", autouse=True)
def meanwhile(turning: Turning) -> Turning:
    """It takes minutes: the story of test_ocm_4_identity.py begins here."""
    return turning


def hub_pod(federation: Federation) -> Object:
    found = federation.hub.get("v1", "Pod", federation.hub_pod, federation.namespace)
    assert found is not None
    return found


def restarts(pod: Object, name: str) -> int:
    states = pod["status"]["containerStatuses"]
    return int(next(state["restartCount"] for state in states if state["name"] == name))


def test_the_pod_runs_in_a_restricted_namespace(hospitals: Federation) -> None:
    space = hospitals.hub.get("v1", "Namespace", hospitals.namespace)
    assert space is not None
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = hub_pod(hospitals)
    assert all(state["ready"] for state in pod["status"]["containerStatuses"])
    assert pod["spec"]["automountServiceAccountToken"] is False
    for one in pod["spec"]["containers"]:
        assert one["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_kubelet_has_been_told_of_the_gates_secret(hospitals: Federation) -> None:
    secret = hospitals.hub.get("v1", "Secret", hospitals.names.gate_secret, hospitals.namespace)
    assert secret is not None
    version, pod = secret["metadata"]["resourceVersion"], f"{hospitals.names.hub}-0"
    told = lambda seen: seen["metadata"].get("annotations", {}).get(BROUGHT) == version  # noqa: E731
    hospitals.hub.wait(("v1", "Pod", pod, hospitals.namespace), told)


def test_a_run_goes_on_when_the_superlink_is_killed(
    pods: Bed, hospitals: Federation, owner: Person
) -> None:
    before = hub_pod(hospitals)
    run = owner.starts(num_server_rounds=5, seconds=1.0)
    owner.until_round(run, 1)
    where = ("-n", hospitals.namespace, hospitals.hub_pod, "-c", "superlink")
    with contextlib.suppress(CommandFailed):  # what kills ends with the container
        pods.kubectl("hub", "exec", *where, "--", "python", "-c", KILLS)
    ended = owner.ends(run)
    assert ended.status == "completed"
    assert ended.rounds == [[0, 1]] * 5
    after = hub_pod(hospitals)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert restarts(after, "superlink") == restarts(before, "superlink") + 1
    assert restarts(after, "gate") == restarts(before, "gate")


def test_a_changed_hub_waits_until_no_round_is_disturbed(
    hospitals: Federation, owner: Person
) -> None:
    before = hub_pod(hospitals)["metadata"]["uid"]
    run = owner.starts(num_server_rounds=4, seconds=1.0)
    owner.until_round(run, 1)
    taint = {"key": "example.org/reserved", "operator": "Exists"}
    superlink = {"kubernetes": {"tolerations": [taint]}}
    hospitals.change(superlink=superlink)
    hospitals.until_said("HubCurrent", "WaitingForRuns")
    assert hub_pod(hospitals)["metadata"]["uid"] == before
    ended = owner.ends(run)
    assert ended.status == "completed"
    assert ended.rounds == [[0, 1]] * 4
    key = ("v1", "Pod", hospitals.hub_pod, hospitals.namespace)
    fresh = hospitals.hub.wait(key, lambda pod: pod["metadata"]["uid"] != before)
    assert any(one.get("key") == "example.org/reserved" for one in fresh["spec"]["tolerations"])
    hospitals.until_ready("berlin", "boston")


def answer(script: str, *values: Any) -> str:
    """Run a script in the network of the nodes; give what it prints, or its last words."""
    argv = [*network.entering(SWITCH), sys.executable, "-c", script.format(*values)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_strangers_get_nothing_at_the_two_doors(hospitals: Federation) -> None:
    doors = hospitals.seen()["status"]["endpoint"]
    fleet, control = (doors[key].split(":") for key in ("fleet", "control"))
    assert answer(ASKS, *fleet, "POST", "/v1/fleet/pull-messages") == "401"
    assert answer(ASKS, *control, "POST", "/v1/control/start-run") == "401"
    assert answer(ASKS, *control, "GET", "/v1/federations") == "401"
    for door in (fleet, control):
        assert answer(PLAIN, *door) != "200"
        assert "http.client" in answer(PLAIN, *door) or "Error" in answer(PLAIN, *door)


def test_only_the_two_doors_are_on_the_service(hospitals: Federation) -> None:
    found = hospitals.hub.get("v1", "Service", hospitals.names.service, hospitals.namespace)
    assert found is not None
    assert {port["port"] for port in found["spec"]["ports"]} == {FLEET_PORT, CONTROL_PORT}


@pytest.fixture(scope="module")
def stranger(hub: Api) -> Iterator[Object]:
    """A pod of somebody else on the hub."""
    waits = container("import signal; signal.pause()")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [waits]},
    }
    hub.apply(pod)
    key = ("v1", "Pod", "stranger", "default")
    yield hub.wait(key, lambda seen: seen.get("status", {}).get("phase") == "Running")
    hub.delete(*key)


def dialled(pods: Bed, address: str, port: int) -> str:
    """Let the stranger dial; give whether it is open, refused or silent."""
    try:
        script = DIALS.format(address, port)
        return pods.kubectl("hub", "exec", "stranger", "--", "python3", "-c", script).strip()
    except CommandFailed as error:
        return "silent" if "timed out" in error.words else "refused"


def test_a_network_policy_closes_everything_but_the_doors(
    pods: Bed, hospitals: Federation, stranger: Object
) -> None:
    assert stranger
    address = hub_pod(hospitals)["status"]["podIP"]
    assert dialled(pods, address, FLEET_PORT) == "open"
    assert dialled(pods, address, CONTROL_PORT) == "open"
    assert dialled(pods, address, HEALTH_PORTS["superlink"]) == "silent"
    assert dialled(pods, address, HEALTH_PORTS["gate"]) == "silent"
    assert dialled(pods, address, RUNTIME_PORT) == "silent"


def test_a_change_that_the_hub_would_not_start_with_leaves_it_as_it_is(
    hub: Api, hospitals: Federation
) -> None:
    before = hub_pod(hospitals)["metadata"]["uid"]
    hospitals.change(superlink={"kubernetes": {"nodeSelector": NOWHERE}})
    try:
        told = hospitals.until_said("HubCurrent", "HubTrialFailed")
        assert "nodes are available" in told["message"]
        assert hub_pod(hospitals)["metadata"]["uid"] == before
    finally:
        back = dict.fromkeys(NOWHERE)
        hospitals.change(superlink={"kubernetes": {"nodeSelector": back}})
    hospitals.until_ready("berlin", "boston")
    trial = ("v1", "Pod", f"{hospitals.names.hub}-trial", hospitals.namespace)
    eventually("the end of the trial", lambda: hub.get(*trial) is None)
    assert hub_pod(hospitals)["metadata"]["uid"] == before


HOSTS = {"fleetHost": "fleet.example.org", "controlHost": "control.example.org"}
SERVICES: Mapping[str, Object] = {
    "ClusterIP": {},
    "NodePort": {"fleetNodePort": 31092, "controlNodePort": 31093},
    "LoadBalancer": {"annotations": {"example.org/pool": "inside"}},
    "Ingress": {**HOSTS, "className": "nginx"},
    "Gateway": {**HOSTS, "gateway": "edge", "gatewayNamespace": "infra"},
}


@pytest.fixture
def routes(hub: Api) -> Iterator[None]:
    """The hub serves the Gateway API's TLSRoute, strictly: what is not in its form is refused."""
    text, number = {"type": "string"}, {"type": "integer"}
    backend = _object(name=text, port=number, namespace=text)
    parent = _object(name=text, namespace=text, sectionName=text)
    form = _object(
        parentRefs=_list(parent),
        hostnames=_list(text),
        rules=_list(_object(backendRefs=_list(backend))),
    )
    version = {
        "name": "v1alpha2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _object(spec=form)},
    }
    names = {"kind": "TLSRoute", "plural": "tlsroutes", "singular": "tlsroute"}
    group = "gateway.networking.k8s.io"
    name = f"tlsroutes.{group}"
    meta = {
        "name": name,
        "annotations": {"api-approved.kubernetes.io": "https://example.org"},
    }
    hub.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": meta,
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )
    yield
    hub.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)


def _object(**fields: Object) -> Object:
    return {"type": "object", "properties": fields}


def _list(item: Object) -> Object:
    return {"type": "array", "items": item}


@pytest.mark.parametrize("kind", SERVICES)
def test_the_api_server_takes_the_hub_with_every_kind_of_service(
    hub: Api, hospitals: Federation, request: pytest.FixtureRequest, kind: str
) -> None:
    if kind == "Gateway":
        request.getfixturevalue("routes")
    wanted = hospitals.resource(
        spec(everywhere(), kubernetes={"service": {"type": kind, **SERVICES[kind]}})
    )
    wanted["metadata"]["name"] = "served"
    document = Document.model_validate(wanted)
    names = Federation(hub, hospitals.namespace, "served").names
    made = objects(Hub(document, names, "localhost/umbel:dev", "PEM"))
    for content in made:
        meta = content["metadata"]
        path = hub.path(content["apiVersion"], content["kind"], meta["namespace"], meta["name"])
        query = "fieldManager=someone&dryRun=All&fieldValidation=Strict"
        form = "application/apply-patch+yaml"
        hub.request("PATCH", f"{path}?{query}", content, Content_Type=form)
    routed = [content["kind"] for content in made if content["kind"] in ("Ingress", "TLSRoute")]
    assert routed == {"Ingress": ["Ingress"], "Gateway": ["TLSRoute", "TLSRoute"]}.get(kind, [])


def fleet_of(seen: Object) -> str:
    return str(seen.get("status", {}).get("endpoint", {}).get("fleet", ""))


def test_a_load_balancers_address_becomes_the_endpoint(declare: Declare) -> None:
    wanted = asleep(everywhere(placement=labelled("balanced")))
    wanted["superlink"] = {
        "on": "ocm",
        "kubernetes": {"service": {"type": "LoadBalancer"}, "nodeSelector": NOWHERE},
    }
    federation = declare("ocm-services", "balanced", wanted)
    federation.until_said("EndpointKnown", "EndpointPending")
    assert not fleet_of(federation.seen())
    given = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7", "ipMode": "VIP"}]}}
    path = federation.hub.path("v1", "Service", "ocm-services", "balanced")
    federation.hub.patch(f"{path}/status", {"status": given})
    seen = federation.wait(fleet_of)
    assert seen["status"]["endpoint"] == {"fleet": "192.0.2.7:9092", "control": "192.0.2.7:9093"}
    certificate = federation.secret(federation.names.gate_secret)["server.crt"]
    body = ssl.PEM_cert_to_DER_cert(certificate.decode())
    assert bytes([192, 0, 2, 7]) in body


def test_an_ingress_comes_and_goes_with_the_declaration(declare: Declare) -> None:
    service = {"type": "Ingress", **HOSTS}
    wanted = asleep(everywhere(placement=labelled("routed")))
    wanted["superlink"]["kubernetes"]["service"] = service
    federation = declare("ocm-services", "routed", wanted)
    ingress = ("networking.k8s.io/v1", "Ingress", "routed", "ocm-services")
    made = federation.hub.wait(ingress, bool)
    assert [rule["host"] for rule in made["spec"]["rules"]] == list(HOSTS.values())
    seen = federation.wait(fleet_of)
    assert seen["status"]["endpoint"]["fleet"] == "fleet.example.org:443"
    plain = {"type": "NodePort", "fleetHost": None, "controlHost": None}
    federation.change(superlink={"kubernetes": {"service": plain}})
    eventually("the end of the ingress", lambda: federation.hub.get(*ingress) is None)


def test_a_gateway_that_the_hub_does_not_serve_is_said(declare: Declare) -> None:
    wanted = asleep(everywhere(placement=labelled("gated")))
    wanted["superlink"]["kubernetes"]["service"] = {
        "type": "Gateway",
        **HOSTS,
        "gateway": "edge",
    }
    federation = declare("ocm-services", "gated", wanted)
    assert not _serves_routes(federation.hub)
    seen = federation.wait(lambda seen: seen.get("status", {}).get("conditions"))
    (ready,) = (c for c in seen["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "False"
    assert "TLSRoute" in ready["message"] or "tlsroutes" in ready["message"]


def _serves_routes(hub: Api) -> bool:
    try:
        hub.request("GET", "/apis/gateway.networking.k8s.io/v1alpha2")
    except Refused:
        return False
    return True
