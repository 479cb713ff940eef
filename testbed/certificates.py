"""A small authority for each cluster: server and client certificates, kubeconfigs."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=30)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")


def new_key() -> rsa.RSAPrivateKey:
    """Make an RSA key: the controller manager and OCM's signers take no other everywhere."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Authority:
    """Signs for one cluster; its files stand in one folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.certificate_file = folder / "ca.crt"
        self.key_file = folder / "ca.key"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = new_key()
        subject = _name(f"{name} authority", ())
        self._certificate = (
            _builder(subject, subject, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        write_key(self.key_file, self._key)
        write_certificate(self.certificate_file, self._certificate)

    def server(
        self,
        stem: str,
        names: Sequence[str] = SERVER_NAMES,
        addresses: Sequence[str] = SERVER_ADDRESSES,
    ) -> tuple[Path, Path]:
        """Write a server certificate and its key; give both paths."""
        others: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        others += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        return self._leaf(stem, _name(stem, ()), others)

    def client(self, stem: str, user: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Write a client certificate for the user and its key; give both paths."""
        return self._leaf(stem, _name(user, groups), [])

    def _leaf(
        self, stem: str, subject: x509.Name, others: list[x509.GeneralName]
    ) -> tuple[Path, Path]:
        key = new_key()
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(subject, self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        )
        if others:
            builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        certificate_file, key_file = self.folder / f"{stem}.crt", self.folder / f"{stem}.key"
        write_certificate(certificate_file, builder.sign(self._key, hashes.SHA256()))
        write_key(key_file, key)
        return certificate_file, key_file


def write_key(path: Path, key: rsa.RSAPrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_secret(path, pem)


def write_public_key(path: Path, key: rsa.RSAPrivateKey) -> None:
    path.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def write_kubeconfig(
    path: Path, server: str, authority: Path, certificate: Path, key: Path
) -> Path:
    """Write all that a client needs to speak to one API server, in one file."""

    def embedded(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    name = path.stem
    cluster = {"server": server, "certificate-authority-data": embedded(authority)}
    user = {"client-certificate-data": embedded(certificate), "client-key-data": embedded(key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    write_secret(path, yaml.safe_dump(config).encode())
    return path


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
