"""Real TLS, in memory: what OpenSSL thinks of our certificates."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from umbel.identity import leaves
from umbel.identity.authority import Authority

NAMES = ("fl.example.org", "127.0.0.1", "::1")


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)  # OpenSSL looks at the real clock


def shake_hands(server: leaves.Leaf, bundle: Path, name: str) -> None:
    """Connect a client that trusts the bundle to the server; raise what the client says."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(server.certificate, server.key)
    ours = ssl.create_default_context(cadata=bundle.read_text())
    ours.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.wrap_bio(to_client, to_server, server_hostname=name)
    answering = theirs.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.version() == "TLSv1.3"


def server_of(authority: Authority, folder: Path, now: datetime) -> leaves.Leaf:
    return leaves.ensure(authority, folder, "gate", NAMES, now=now, days=1)


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_ca_believes_the_server(
    authority: Authority, tmp_path: Path, now: datetime, name: str
) -> None:
    shake_hands(server_of(authority, tmp_path / "gate", now), authority.bundle_path, name)


@pytest.mark.parametrize("name", ["example.org", "127.0.0.2", "localhost"])
def test_no_client_believes_it_under_another_name(
    authority: Authority, tmp_path: Path, now: datetime, name: str
) -> None:
    server = server_of(authority, tmp_path / "gate", now)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(server, authority.bundle_path, name)


def test_a_stranger_with_the_same_ca_name_is_not_believed(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    stranger = Authority.create(tmp_path / "s", "hospitals", now=now, days=1, secret=None)
    server = server_of(stranger, tmp_path / "gate", now)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, authority.bundle_path, "fl.example.org")


def test_during_a_rotation_servers_of_both_cas_are_believed_and_then_one(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    old = server_of(authority, tmp_path / "old", now)
    rotated = authority.rotate(now=now, days=9, secret=None)
    new = server_of(rotated, tmp_path / "new", now)
    for server in (old, new):
        shake_hands(server, rotated.bundle_path, "fl.example.org")
    rotated.drop_former()
    shake_hands(new, rotated.bundle_path, "fl.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(old, rotated.bundle_path, "fl.example.org")
