from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from umbel.identity import at_rest, issuance, pkcs8
from umbel.identity.disk import IdentityUnreadable
from umbel.model.federation import CaKey


def secret_file(folder: Path, content: bytes, mode: int = 0o600) -> str:
    path = folder / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (b"correct horse\n", b"correct horse"),
        (b"correct horse\r\n", b"correct horse"),
        (b"correct horse", b"correct horse"),
        (b" spaces \n\n", b" spaces \n"),
        (b"x" * 1023 + b"\n", b"x" * 1023),
    ],
)
def test_a_passphrase_ends_before_one_newline(
    tmp_path: Path, content: bytes, secret: bytes
) -> None:
    path = secret_file(tmp_path, content)
    assert at_rest.read_secret(CaKey(passphrase_file=path)) == secret


def test_every_byte_of_a_key_file_counts(tmp_path: Path) -> None:
    contents = [b"\x00\n", b"\x00", b"\x00\n\n", b"k" * 4096]
    secrets = {at_rest.read_secret(CaKey(key_file=secret_file(tmp_path, c))) for c in contents}
    assert len(secrets) == 4
    assert all(len(secret) == 64 for secret in secrets)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o777])
def test_a_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    path = secret_file(tmp_path, b"correct horse", mode)
    for key in (CaKey(passphrase_file=path), CaKey(key_file=path)):
        with pytest.raises(at_rest.SecretExposed, match=f"{mode:04o}"):
            at_rest.read_secret(key)


def test_the_owner_is_me_or_root() -> None:
    assert not at_rest.exposure(0o100400, owner=1000, me=1000)
    assert not at_rest.exposure(0o100600, owner=0, me=1000)
    assert at_rest.exposure(0o100600, owner=1001, me=1000)
    assert at_rest.exposure(0o100600, owner=1001, me=0)


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_secret_is_none(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(at_rest.SecretEmpty):
        at_rest.read_secret(CaKey(passphrase_file=secret_file(tmp_path, content)))


def test_an_empty_key_file_is_none(tmp_path: Path) -> None:
    with pytest.raises(at_rest.SecretEmpty):
        at_rest.read_secret(CaKey(key_file=secret_file(tmp_path, b"")))


def test_a_secret_has_a_greatest_length(tmp_path: Path) -> None:
    with pytest.raises(at_rest.SecretTooLong):
        at_rest.read_secret(CaKey(passphrase_file=secret_file(tmp_path, b"x" * 1024)))
    with pytest.raises(at_rest.SecretTooLong):
        at_rest.read_secret(CaKey(key_file=secret_file(tmp_path, b"x" * (1 << 20) + b"x")))


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(IdentityUnreadable):
        at_rest.read_secret(CaKey(passphrase_file=os.fspath(tmp_path / name)))


def test_what_is_encrypted_opens_again_and_never_looks_alike() -> None:
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    der = issuance.new_key().private_bytes(serialization.Encoding.DER, *plain)
    first, second = (pkcs8.encrypt(der, b"correct horse") for _ in range(2))
    opened = serialization.load_pem_private_key(first, b"correct horse")
    assert opened.private_bytes(serialization.Encoding.DER, *plain) == der
    assert first != second
