"""A cluster's authority signs what an API server and its clients need, and keeps its keys closed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID
from testbed.certificates import Authority, write_kubeconfig


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "hub", "hub")


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_server_answers_to_loopback_and_to_the_service_names(authority: Authority) -> None:
    certificate, _ = authority.server("apiserver")
    names = read(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    read(certificate).verify_directly_issued_by(read(authority.certificate_file))


def test_a_client_is_who_its_certificate_says(authority: Authority) -> None:
    certificate, _ = authority.client("admin", "ada", ["system:masters"])
    subject = read(certificate).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["ada"]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [a.value for a in groups] == ["system:masters"]


def test_keys_and_kubeconfigs_are_for_their_owner_only(authority: Authority) -> None:
    pair = authority.client("bob", "bob")
    path = write_kubeconfig(
        authority.folder / "bob.kubeconfig",
        "https://127.0.0.1:1",
        authority.certificate_file,
        *pair,
    )
    for secret in (path, pair[1], authority.key_file):
        assert secret.stat().st_mode & 0o077 == 0
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"].endswith(":1")
