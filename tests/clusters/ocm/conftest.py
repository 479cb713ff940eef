"""An operator on the bed's hub, federations that share it, and people who use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.pods import images
from testbed.waiting import eventually
from tests.clusters.conftest import STATE
from tests.clusters.ocm.stories import (
    CLUSTER,
    SYSTEM,
    Federation,
    Person,
    everywhere,
    labelled,
    spec,
)
from tests.clusters.stories import rolled_out

from umbel.targets.ocm.crd import federation_crd
from umbel.targets.ocm.identity import ROTATE
from umbel.targets.ocm.install import OPERATOR, OperatorSettings, operator_objects

Declare = Callable[[str, str, Object], Federation]
Meet = Callable[[Federation], Person]
BUILT = "testbed.umbel.dev/built"  # a fresh image of the same name: the operator starts anew
SPREAD = {"name": "UMBEL_SPREAD_SECONDS", "value": "30"}  # the bed's nodes are quick
DEPLOYMENT = ("apps/v1", "Deployment", OPERATOR, SYSTEM)
LEASE = ("coordination.k8s.io/v1", "Lease", OPERATOR, SYSTEM)
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="session")
def operator(pods: Bed, hub: Api) -> Api:
    """The operator keeps the federations of the hub."""
    hub.apply(federation_crd())
    for content in operator_objects(OperatorSettings(image=images.UMBEL)):
        if content["kind"] == "Deployment":
            template = content["spec"]["template"]
            template["metadata"]["annotations"] = {BUILT: pods.loaded.read_text().split()[-1]}
            template["spec"]["containers"][0]["env"].append(SPREAD)
        hub.apply(content)
    hub.wait(DEPLOYMENT, rolled_out, 120)
    leaders = {pod["metadata"]["name"] for pod in operator_pods(hub)}
    hub.wait(LEASE, lambda seen: seen["spec"].get("holderIdentity") in leaders)
    return hub


def operator_pods(hub: Api) -> list[Object]:
    """Give the operator's pods, those that end left out."""
    found = hub.list("v1", "Pod", SYSTEM, f"app.kubernetes.io/name={OPERATOR}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def make_namespace(hub: Api, name: str, *, bound: bool = True) -> None:
    """Make a namespace for restricted pods that may use all clusters."""
    meta = {"name": name, "labels": RESTRICTED}
    hub.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    if bound:
        hub.apply(
            {
                "apiVersion": f"{CLUSTER}/v1beta2",
                "kind": "ManagedClusterSetBinding",
                "metadata": {"name": "global", "namespace": name},
                "spec": {"clusterSet": "global"},
            }
        )


class Declared:
    """Federations that were declared; they end together."""

    def __init__(self, hub: Api) -> None:
        self.hub = hub
        self.made: list[Federation] = []
        self.spaces: list[str] = []

    def __call__(self, namespace: str, name: str, wanted: Object) -> Federation:
        one = Federation(self.hub, namespace, name)
        if namespace not in self.spaces:
            make_namespace(self.hub, namespace)
            self.spaces.append(namespace)
        self.hub.apply(one.resource(wanted))
        self.made.append(one)
        return one

    def end(self) -> None:
        for one in self.made:
            one.delete()
        for one in self.made:
            one.until_gone()
        for space in self.spaces:
            self.hub.delete("v1", "Namespace", space)
        for space in self.spaces:
            eventually(f"the end of {space}", lambda s=space: self._gone(s), 60)  # type: ignore[misc]

    def _gone(self, space: str) -> bool:
        return self.hub.get("v1", "Namespace", space) is None


@pytest.fixture(scope="session")
def lasting(operator: Api) -> Iterator[Declare]:
    """Declare federations (namespace, name, spec) that several files share."""
    declared = Declared(operator)
    yield declared
    if STATE in os.environ:  # else they go with their bed
        declared.end()


@pytest.fixture(scope="module")
def declare(lasting: Declare, hospitals_declared: Federation) -> Iterator[Declare]:
    """Declare federations that go after the file's last test, while other stories are told."""
    del hospitals_declared  # comes up meanwhile
    made: list[Federation] = []

    def one(namespace: str, name: str, wanted: Object) -> Federation:
        made.append(lasting(namespace, name, wanted))
        return made[-1]

    yield one
    for federation in made:
        federation.delete()


@pytest.fixture(scope="session")
def hospitals_declared(lasting: Declare) -> Federation:
    """A federation over both clusters; one with the label `hospital=closed` is left out."""
    group = everywhere(placement=labelled("hospital", "closed", "NotIn"))
    return lasting("ocm-shared", "hospitals", spec(group))


@pytest.fixture
def hospitals(hospitals_declared: Federation) -> Federation:
    """The federation that most stories share, ready and with both sites."""
    hospitals_declared.until_ready("berlin", "boston")
    return hospitals_declared


@pytest.fixture(scope="session")
def meet(tmp_path_factory: pytest.TempPathFactory) -> Meet:
    """Give somebody who has the owner's token of a federation and is connected."""
    known: dict[str, Person] = {}

    def person(federation: Federation) -> Person:
        owner = federation.names.owner
        if owner not in known:
            home: Path = tmp_path_factory.mktemp("person") / "home"
            known[owner] = Person(home, federation)
            connected = known[owner].connect()
            assert connected.returncode == 0, connected.stderr
        return known[owner]

    return person


@pytest.fixture
def owner(hospitals: Federation, meet: Meet) -> Person:
    """Who declared the shared federation."""
    return meet(hospitals)


@dataclass(frozen=True)
class Turning:
    """A federation whose authority changes while a long run goes on."""

    federation: Federation
    person: Person
    run: str
    rounds: int
    authority: bytes  # the certificate of before


@pytest.fixture(scope="session")
def rotor(lasting: Declare) -> Federation:
    """A federation on berlin alone."""
    group = everywhere(placement=labelled("gpu", "true"))
    return lasting("ocm-rotor", "rotor", spec(group))


@pytest.fixture(scope="session")
def turning(rotor: Federation, meet: Meet) -> Turning:
    """It takes minutes until every pod trusts a new authority: other stories are told meanwhile."""
    rotor.until_ready("berlin")
    person, rounds = meet(rotor), 60
    run = person.starts(num_server_rounds=rounds, min_nodes=1, seconds=2.0)
    before = rotor.secret(rotor.names.user_secret("owner"))["ca.crt"].strip()
    path = rotor.hub.path(rotor.key[0], "Federation", rotor.namespace, rotor.name)
    rotor.hub.patch(path, {"metadata": {"annotations": {ROTATE: "once"}}})
    return Turning(rotor, person, run, rounds, before)
