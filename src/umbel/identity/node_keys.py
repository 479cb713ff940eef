"""A SuperNode's key: made where the node runs, known elsewhere by its public half only.

NIST P-256 in OpenSSH form, which is what `flower-supernode` reads. The private file counts; the
`.pub` beside it is a copy, made again when it differs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from umbel.errors import SecurityError
from umbel.identity import disk
from umbel.identity.issuance import new_key

PRIVATE = "node.key"
PUBLIC = "node.pub"


class NodeKeyMissing(SecurityError):
    """The site has no key."""

    code = "U410"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not there", hint="`umbel up` makes a key and enrols it")


class NodeKeyDamaged(SecurityError):
    """The site's key cannot be used."""

    code = "U411"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} {why}",
            hint="restore it from a backup, or remove it and enrol the site again: "
            "it gets a new key, and the old one must be revoked",
        )


@dataclass(frozen=True, slots=True)
class NodeKey:
    """What others may know of a SuperNode's key, and where the key is."""

    path: Path
    public_pem: bytes  # SubjectPublicKeyInfo, as Flower's RegisterNode wants it
    fingerprint: str  # SHA-256 of its DER form, in hex

    @property
    def public_path(self) -> Path:
        """The public half in OpenSSH form."""
        return self.path.with_name(PUBLIC)


def make(folder: Path) -> NodeKey:
    """Make a new key; the folder's former key, if any, is gone."""
    with disk.locked(folder):
        found, files = _fresh(folder)
        disk.write_all(files)
    return found


def load(folder: Path) -> NodeKey:
    """Read the folder's key."""
    path = folder / PRIVATE
    content = disk.read_private(path)
    if content is None:
        raise NodeKeyMissing(path)
    return _known(path, _parse(path, content).public_key())


def ensure(folder: Path) -> NodeKey:
    """Give the folder's key, made now if there is none."""
    with disk.locked(folder):
        found, files = prepare(folder)
        disk.write_all(files)
    return found


def prepare(folder: Path) -> tuple[NodeKey, dict[Path, bytes]]:
    """Give the folder's key or a new one, with what is still to be written; hold the lock."""
    path = folder / PRIVATE
    content = disk.read_private(path)
    if content is None:
        return _fresh(folder)
    public = _parse(path, content).public_key()
    copy = _openssh(public)
    found = _known(path, public)
    return found, {} if disk.read(found.public_path) == copy else {found.public_path: copy}


def fingerprint(public_pem: bytes) -> str:
    """Name a public key (PEM SubjectPublicKeyInfo) as the roster does."""
    try:
        key = serialization.load_pem_public_key(public_pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise NodeKeyDamaged(Path("the public key"), "is not in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise NodeKeyDamaged(Path("the public key"), "is not an elliptic curve key")
    return hashlib.sha256(_der(key)).hexdigest()


def _fresh(folder: Path) -> tuple[NodeKey, dict[Path, bytes]]:
    key = new_key()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    found = _known(folder / PRIVATE, key.public_key())
    return found, {found.path: private, found.public_path: _openssh(key.public_key())}


def _parse(path: Path, content: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_ssh_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise NodeKeyDamaged(path, "is not an OpenSSH private key without passphrase") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise NodeKeyDamaged(path, "is not an elliptic curve key")
    return key


def _known(path: Path, public: ec.EllipticCurvePublicKey) -> NodeKey:
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return NodeKey(path, pem, hashlib.sha256(_der(public)).hexdigest())


def _der(public: ec.EllipticCurvePublicKey) -> bytes:
    return public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _openssh(public: ec.EllipticCurvePublicKey) -> bytes:
    form = serialization.PublicFormat.OpenSSH
    return public.public_bytes(serialization.Encoding.OpenSSH, form) + b"\n"
