"""A server certificate for one use in one place, from a CA that nobody else knows.

For hops that never leave a pod or a cluster: whoever may trust it is handed its `NAME.ca` there.
The CA's key is dropped as soon as it has signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from umbel.identity import disk, issuance
from umbel.identity.names import alternatives, plain

DAYS = 825


@dataclass(frozen=True, slots=True)
class Alone:
    """A server's files."""

    ca: Path
    certificate: Path
    key: Path


def ensure(folder: Path, name: str, names: Sequence[str], *, now: datetime) -> Alone:
    """Leave a key and a certificate for these names; what is good for another third stays."""
    found = Alone(*(folder / f"{plain(name)}.{end}" for end in ("ca", "crt", "key")))
    with disk.locked(folder):
        if not _is_good(found, names, now):
            disk.write_all(_made(found, names, now))
    return found


def _is_good(found: Alone, names: Sequence[str], now: datetime) -> bool:
    content = disk.read(found.certificate)
    if content is None or not found.key.exists() or not found.ca.exists():
        return False
    try:
        present = x509.load_pem_x509_certificate(content)
    except ValueError:
        return False
    said = present.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    ends = present.not_valid_after_utc - timedelta(days=DAYS // 3)
    return now < ends and set(said) >= set(alternatives(names))


def _made(found: Alone, names: Sequence[str], now: datetime) -> dict[Path, bytes]:
    signer = issuance.self_signed(issuance.authority_subject(found.key.stem), now=now, days=DAYS)
    key = issuance.new_key()
    leaf = issuance.leaf(signer, key.public_key(), names, issuance.Term(now, DAYS))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = serialization.Encoding.PEM
    return {
        found.key: private,
        found.certificate: leaf.public_bytes(pem),
        found.ca: signer.certificate.public_bytes(pem),
    }
