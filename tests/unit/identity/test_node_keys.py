from __future__ import annotations

import hashlib
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from umbel.identity import node_keys


def test_a_key_is_a_nist_curve_in_openssh_form(tmp_path: Path) -> None:
    made = node_keys.make(tmp_path / "site")
    key = serialization.load_ssh_private_key(made.path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"
    public = serialization.load_ssh_public_key(made.public_path.read_bytes())
    assert public == key.public_key()
    assert serialization.load_pem_public_key(made.public_pem) == key.public_key()


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    made = node_keys.make(tmp_path / "site")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700


def test_the_fingerprint_is_of_the_der_form(tmp_path: Path) -> None:
    made = node_keys.make(tmp_path)
    key = serialization.load_pem_public_key(made.public_pem)
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert made.fingerprint == hashlib.sha256(der).hexdigest()
    assert made.fingerprint == node_keys.fingerprint(made.public_pem)


def test_ensuring_twice_is_ensuring_once(tmp_path: Path) -> None:
    assert node_keys.ensure(tmp_path) == node_keys.ensure(tmp_path) == node_keys.load(tmp_path)


def test_making_again_makes_another(tmp_path: Path) -> None:
    first, second = node_keys.make(tmp_path), node_keys.make(tmp_path)
    assert first.fingerprint != second.fingerprint
    assert node_keys.load(tmp_path) == second


def test_a_wrong_public_copy_is_made_again(tmp_path: Path) -> None:
    made = node_keys.make(tmp_path)
    right = made.public_path.read_bytes()
    made.public_path.write_bytes(b"spoiled")
    assert node_keys.ensure(tmp_path) == made
    assert made.public_path.read_bytes() == right


def test_many_at_once_get_one_key(tmp_path: Path) -> None:
    start = Barrier(8)

    def ensure(_: int) -> str:
        start.wait()
        return node_keys.ensure(tmp_path).fingerprint

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ensure, range(8))) == {node_keys.load(tmp_path).fingerprint}


def test_no_key_is_an_error_with_a_code(tmp_path: Path) -> None:
    with pytest.raises(node_keys.NodeKeyMissing, match="U410"):
        node_keys.load(tmp_path)


def other_kind() -> bytes:
    return ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


@pytest.mark.parametrize("content", [b"", b"spoiled", b"\xff\x00", other_kind()])
def test_a_damaged_key_is_never_replaced_silently(tmp_path: Path, content: bytes) -> None:
    path = node_keys.make(tmp_path).path
    path.write_bytes(content)
    for read in (node_keys.load, node_keys.ensure):
        with pytest.raises(node_keys.NodeKeyDamaged, match="U411"):
            read(tmp_path)
    assert path.read_bytes() == content


def test_a_cut_key_is_damaged(tmp_path: Path) -> None:
    path = node_keys.make(tmp_path).path
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(node_keys.NodeKeyDamaged):
        node_keys.load(tmp_path)


@pytest.mark.parametrize("offered", [b"", b"-----BEGIN PUBLIC KEY-----\nAA==\n"])
def test_what_is_no_public_key_has_no_fingerprint(offered: bytes) -> None:
    with pytest.raises(node_keys.NodeKeyDamaged):
        node_keys.fingerprint(offered)
