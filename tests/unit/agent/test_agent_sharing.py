from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography import x509

from umbel.agent.pod import places as names
from umbel.agent.pod import sharing
from umbel.agent.pod.places import Places
from umbel.files import ensure_private_folder
from umbel.flower.environments import secret_of

VISION = {"vision": "clinic/vision"}


class Cluster:
    """A namespace that keeps Secrets, and counts how often it is written to."""

    namespace = "umbel-lab-1"

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, bytes]] = {}
        self.asked = self.writes = 0

    def secret(self, name: str) -> dict[str, bytes] | None:
        self.asked += 1
        return self.kept.get(name)

    def save_secret(self, name: str, content: Mapping[str, bytes]) -> None:
        self.writes += 1
        self.kept[name] = dict(content)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def pod(root: Path, apps: Mapping[str, str] | None = None) -> Places:
    """Lay out a new pod that is told of these environments."""
    places = Places(root)
    ensure_private_folder(places.own(names.KEYS))
    tell(places, apps)
    return places


def tell(places: Places, apps: Mapping[str, str] | None) -> None:
    places.config("environments").parent.mkdir(parents=True, exist_ok=True)
    if apps is not None:
        places.config("environments").write_text(json.dumps(apps))


def test_without_environments_nobody_else_is_let_in(tmp_path: Path, cluster: Cluster) -> None:
    for name, apps in {"untold": None, "none": dict[str, str]()}.items():
        shared = sharing.settle(pod(tmp_path / name, apps), cluster)
        assert shared.host == "127.0.0.1"
        assert shared.served == {}
    assert (cluster.asked, cluster.writes) == (0, 0)


def test_the_certificate_is_good_for_the_service_and_for_the_pod(
    tmp_path: Path, cluster: Cluster
) -> None:
    shared = sharing.settle(pod(tmp_path, VISION), cluster)
    made = x509.load_pem_x509_certificate(shared.tls.certificate.read_bytes())
    said = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"umbel-node", "umbel-node.umbel-lab-1.svc", "localhost"} <= set(
        said.get_values_for_type(x509.DNSName)
    )


def test_each_environment_has_a_secret_of_its_own(tmp_path: Path, cluster: Cluster) -> None:
    shared = sharing.settle(pod(tmp_path, {**VISION, "text": "clinic/text"}), cluster)
    kept = cluster.kept[sharing.OBJECT]
    assert shared.host == "0.0.0.0"  # noqa: S104
    assert {n: s.app for n, s in shared.served.items()} == {**VISION, "text": "clinic/text"}
    assert kept["vision.secret"] == shared.served["vision"].secret
    assert kept["text.secret"] == shared.served["text"].secret
    assert kept["vision.secret"] != kept["text.secret"]
    assert kept["ca.crt"] == shared.tls.ca.read_bytes()
    assert kept["vision.secret"] == secret_of(kept["runtime.secret"], "vision")


def test_a_new_pod_goes_on_with_what_executors_already_have(
    tmp_path: Path, cluster: Cluster
) -> None:
    first = sharing.settle(pod(tmp_path / "1", VISION), cluster)
    second = sharing.settle(pod(tmp_path / "2", VISION), cluster)
    assert second.tls.certificate.read_bytes() == first.tls.certificate.read_bytes()
    assert second.served == first.served
    assert cluster.writes == 1


def test_an_environment_that_is_declared_later_joins_the_others(
    tmp_path: Path, cluster: Cluster
) -> None:
    places = pod(tmp_path, {})
    before = sharing.settle(places, cluster)
    trusted = before.tls.ca.read_bytes()  # the pod's own executor has read it
    tell(places, VISION)
    after = sharing.settle(places, cluster)
    assert after.tls.ca.read_bytes() == trusted
    assert after.host == "0.0.0.0"  # noqa: S104
    tell(places, {"text": "clinic/text"})
    sharing.settle(places, cluster)
    assert "vision.secret" not in cluster.kept[sharing.OBJECT]


def test_secrets_are_not_told(tmp_path: Path, cluster: Cluster) -> None:
    shared = sharing.settle(pod(tmp_path, VISION), cluster)
    assert "secret" not in repr(shared.served["vision"])
    assert "vision" not in repr(shared)
