"""Certificates that have ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from umbel.identity import leaves
from umbel.identity.authority import Authority


def expire(authority: Path, folder: Path) -> None:
    """Put a certificate in place that ended yesterday, signed by the CA."""
    signer, now = Authority.load(authority, None).signer, datetime.now(UTC)
    key = leaves.ServerKey.find(folder / "server.key")
    assert key is not None
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(signer.certificate.subject)
        .public_key(key.private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now - timedelta(days=1))
        .sign(signer.key, hashes.SHA256())
    )
    (folder / "server.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
