"""An operator on the bed's hub, federations that share it, and people who use them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from testbed.api import Api, Object
from testbed.bed import Bed
from testbed.pods import images
from testbed.pods.commands import run
from testbed.pods.node import load_images
from testbed.programs import program
from testbed.waiting import eventually
from tests.clusters.conftest import STATE
from tests.clusters.ocm import packages
from tests.clusters.ocm.stories import (
    CLUSTER,
    DIRECT,
    HUB_ADDRESS,
    MIRRORED,
    PROXY,
    SYSTEM,
    TOLERATED,
    Declare,
    Federation,
    Person,
    everywhere,
    label,
    labelled,
    siteless,
    spec,
)
from tests.clusters.stories import rolled_out

from umbel.targets.ocm.crd import federation_crd
from umbel.targets.ocm.identity import ROTATE
from umbel.targets.ocm.install import OPERATOR, OperatorSettings, operator_objects

Meet = Callable[[Federation], Person]
BUILT = "testbed.umbel.dev/built"  # a fresh image of the same name: the operator starts anew
SPREAD = {"name": "UMBEL_SPREAD_SECONDS", "value": "30"}  # the bed's nodes are quick
DEPLOYMENT = ("apps/v1", "Deployment", OPERATOR, SYSTEM)
LEASE = ("coordination.k8s.io/v1", "Lease", OPERATOR, SYSTEM)
# Federations come up, and go, while other stories are told: the file that declares it, and the last about it.
WHEN: Mapping[str, tuple[str, str]] = {
    "hospitals_declared": ("test_ocm_1_laptop", "test_ocm_10_guides"),
    "doors": ("test_ocm_1_operator", "test_ocm_2_endpoints"),
    "rotor": ("test_ocm_1_operator", "test_ocm_4_identity"),
    "growing": ("test_ocm_2_hub", "test_ocm_2_volume"),
    "ward": ("test_ocm_2_volume", "test_ocm_3_sites"),
    "crew": ("test_ocm_4_identity", "test_ocm_5_numbers"),
    "fleet": ("test_ocm_4_identity", "test_ocm_5_scheduling"),
    "bundled_soon": ("test_ocm_5_scheduling", "test_ocm_6_bundles"),
    "clinics_soon": ("test_ocm_5_scheduling", "test_ocm_6_environments"),
    "moved": ("test_ocm_9_bad_input", "test_ocm_10_guides"),
}
VALUES = """\
addon: {name: flower-addon, installStrategy: Manual}
superlink: {namespace: ocm-moved}
"""
MOVED = "umbel.dev/flower-addon"
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


@pytest.fixture(scope="module", autouse=True)
def in_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Declare what is due now, if its stories will be told; delete what no further story is about."""
    here, told = request.path.stem, {item.path.stem for item in request.session.items}
    due = [name for name, when in WHEN.items() if here in when and when[1] in told]
    found = {name: request.getfixturevalue(name) for name in due}
    yield
    for name, one in found.items():
        if WHEN[name][1] == here:
            (one.result() if isinstance(one, Future) else one).delete()


@pytest.fixture(scope="session")
def aside() -> Iterator[ThreadPoolExecutor]:
    """Somebody who loads images while stories are told."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture(scope="module")
def declare(lasting: Declare) -> Iterator[Declare]:
    """Declare federations that go after the file's last test, while other stories are told."""
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
    return lasting("ocm-rotor", "rotor", spec(everywhere(placement=labelled("gpu", "true"))))


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


@pytest.fixture(scope="session")
def doors(lasting: Declare) -> Federation:
    """A federation on boston whose hub asks for a load balancer, and names no address."""
    wanted = spec(everywhere(placement=labelled("gpu", "false")))
    hub = {"service": {"type": "LoadBalancer"}, "storage": {"size": "1Gi"}}
    wanted["superlink"] = {"on": "ocm", "kubernetes": hub}
    return lasting("ocm-doors", "doors", wanted)


@pytest.fixture(scope="session")
def growing(lasting: Declare) -> Federation:
    """A federation whose hub will need a larger volume."""
    return lasting("ocm-volumes", "growing", siteless(size="1Gi"))


@pytest.fixture(scope="session")
def data() -> Iterator[Path]:
    """A folder of the node with two files, which everybody may read."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        for name in ("a.csv", "b.csv"):
            (folder / name).write_text("1,2,3\n")
        yield folder


@pytest.fixture(scope="session")
def mirror(pods: Bed) -> None:
    """The nodes of berlin have the image under another name too, as from a mirror."""
    for node in pods.nodes("berlin"):
        socket = pods.layout.state / "nodes" / node.name / "cd.sock"
        ctr = [str(program("ctr")), "-a", str(socket), "-n", "k8s.io"]
        run([*ctr, "images", "tag", "--force", images.UMBEL, f"{MIRRORED}:dev"])


@pytest.fixture(scope="session")
def ward(lasting: Declare, data: Path, mirror: None) -> Federation:
    """A federation on berlin alone, with everything that can be said of one cluster."""
    del mirror
    own = {
        "hostPath": str(data),
        "nodeConfig": {"ward": "north"},
        "resources": {
            "requests": {"cpu": "30m"},
            "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"},
        },
        "nodeSelector": {"kubernetes.io/hostname": "berlin-1"},
        "tolerations": [TOLERATED],
        "proxy": {"httpProxy": PROXY, "httpsProxy": PROXY, "noProxy": DIRECT},
        "mirrors": [{"source": "localhost/umbel", "mirror": MIRRORED}],
    }
    group = everywhere(
        placement=labelled("gpu", "true"),
        data={"hostPath": "/nobody/has/this"},
        kubernetes={"clusters": {"berlin": own}},
    )
    return lasting("ocm-ward", "ward", spec(group))


@pytest.fixture(scope="session")
def crew(lasting: Declare) -> Federation:
    """A federation that asks for more clusters than there are."""
    return lasting("ocm-crew", "crew", spec(everywhere(placement={"numberOfClusters": 3})))


@pytest.fixture(scope="session")
def fleet(hub: Api, lasting: Declare) -> Iterator[Federation]:
    """A federation of the clusters with the label `duty=yes`, each a decision group of its own."""
    batches = {"groupStrategy": {"clustersPerDecisionGroup": 1}}
    group = everywhere(placement={**labelled("duty"), "decisionStrategy": batches})
    label(hub, "berlin", duty="yes")
    yield lasting("ocm-fleet", "fleet", spec(group))
    for cluster in ("berlin", "boston"):
        label(hub, cluster, duty=None)


@pytest.fixture(scope="session")
def bundled_soon(
    pods: Bed, lasting: Declare, aside: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> Future[Federation]:
    key = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
    good = packages.bundled_environment("good", "false", packages.public(key))
    bad = packages.bundled_environment("bad", "true", packages.STRANGE)
    runtime = packages.runtime(good, bad, image=packages.WITH_TEXT)
    folder = tmp_path_factory.mktemp("bundle") / "wheels"

    def make() -> Federation:
        load_images(pods.layout.state, packages.bundle_images(folder, key))
        return lasting("ocm-bundles", "bundled", spec(runtime=runtime))

    return aside.submit(make)


@pytest.fixture(scope="session")
def bundled(bundled_soon: Future[Federation]) -> Federation:
    """A federation that trusts the bundle's key at one site, and another key at the other."""
    return bundled_soon.result()


@pytest.fixture(scope="session")
def clinics_soon(
    pods: Bed, lasting: Declare, aside: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> Future[Federation]:
    vision = packages.environment("vision", predicates=labelled("gpu", "true")["predicates"])
    text = packages.environment("text", predicates=labelled("gpu", "false")["predicates"])
    text["image"]["name"] = packages.image_of("text").replace("localhost", packages.ELSEWHERE)
    folder = tmp_path_factory.mktemp("wheels")

    def make() -> Federation:
        load_images(pods.layout.state, packages.environment_images(folder))
        return lasting("ocm-environments", "clinics", packages.one_by_one(vision, text))

    return aside.submit(make)


@pytest.fixture(scope="session")
def clinics(clinics_soon: Future[Federation]) -> Federation:
    """A federation where `vision` is for sites with a GPU, and `text` for the others."""
    return clinics_soon.result()


@pytest.fixture(scope="session")
def moved(
    hub: Api, lasting: Declare, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """Move over from a chart with its values as they are shipped: convert, label, apply."""
    folder = tmp_path_factory.mktemp("moved")
    values, made = folder / "values.yaml", folder / "federation.yaml"
    values.write_text(VALUES)
    nobody = Person(folder / "home", Federation(hub, "", ""))
    done = nobody.umbel("convert", "flower-addon", str(values), "-o", str(made))
    assert done.returncode == 0, done.stderr
    assert f"kubectl label managedcluster NAME {MOVED}=true" in done.stderr
    document = yaml.safe_load(made.read_text())
    document["spec"]["superlink"]["endpoint"] = HUB_ADDRESS  # as the guide says
    document["spec"]["runtime"] = {"image": {"name": images.UMBEL, "pullPolicy": "Never"}}
    meta = document["metadata"]
    label(hub, "boston", **{MOVED: "true"})
    yield lasting(meta["namespace"], meta["name"], document["spec"])
    label(hub, "boston", **{MOVED: None})
