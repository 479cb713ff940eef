"""Server certificates on disk: made, kept while they are good, renewed when they are not.

A server makes its own key (`NAME.key`) and asks; the CA signs (`NAME.crt`). A server key is known
to nobody by heart, so a damaged one is simply replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from umbel.identity import certificates, disk, issuance
from umbel.identity.authority import Authority
from umbel.identity.names import plain


@dataclass(frozen=True, slots=True)
class ServerKey:
    """A server's private key."""

    path: Path
    private: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def find(cls, path: Path) -> Self | None:
        """Read the key; none, or a damaged one, is None."""
        try:
            key = serialization.load_pem_private_key(disk.read_private(path) or b"", None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            return None
        return cls(path, key) if isinstance(key, ec.EllipticCurvePrivateKey) else None

    @classmethod
    def fresh(cls, path: Path) -> Self:
        """Make a key in memory."""
        return cls(path, issuance.new_key())

    @property
    def pem(self) -> bytes:
        """The private key as its file holds it."""
        return self.private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


@dataclass(frozen=True, slots=True)
class Leaf:
    """A server's files, and why its certificate was issued now (empty: it was kept)."""

    key: Path
    certificate: Path
    issued: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a server certificate should say."""

    names: tuple[str, ...]
    now: datetime
    days: int


def make_request(folder: Path, name: str) -> tuple[Path, bytes]:
    """Make the server's key unless it is there, and ask for a certificate (PEM PKCS#10)."""
    path = folder / f"{plain(name)}.key"
    with disk.locked(folder):
        key = ServerKey.find(path)
        if key is None:
            key = ServerKey.fresh(path)
            disk.write_all({path: key.pem})
    return path, issuance.request(key.private, name)


def ensure(
    authority: Authority,
    folder: Path,
    name: str,
    names: Sequence[str],
    *,
    now: datetime,
    days: int,
) -> Leaf:
    """Leave a good key and certificate in the folder, whatever was there before."""
    with disk.locked(folder):
        leaf, files = prepare(authority, folder, name, Wanted(tuple(names), now, days))
        disk.write_all(files)
    return leaf


def prepare(
    authority: Authority, folder: Path, name: str, wanted: Wanted
) -> tuple[Leaf, dict[Path, bytes]]:
    """Keep or issue, with what is still to be written; hold the lock."""
    leaf = Leaf(folder / f"{plain(name)}.key", folder / f"{name}.crt")
    found = ServerKey.find(leaf.key)
    reasons = _reasons(authority, found, leaf, wanted) if found else ("there was no key",)
    if not reasons:
        return leaf, {}
    key = found or ServerKey.fresh(leaf.key)
    signed = authority.issue(
        key.private.public_key(), wanted.names, now=wanted.now, days=wanted.days
    )
    files = {leaf.certificate: signed} if found else {leaf.key: key.pem, leaf.certificate: signed}
    return Leaf(leaf.key, leaf.certificate, reasons), files


def _reasons(authority: Authority, key: ServerKey, leaf: Leaf, wanted: Wanted) -> tuple[str, ...]:
    """Say why the certificate cannot stay."""
    try:
        present = certificates.load(leaf.certificate)
    except certificates.CertificateUnreadable as error:
        return (error.fact,)
    bearer = certificates.Bearer(present, key.private.public_key())
    # The present CA alone: after a rotation everything is issued anew.
    problems = certificates.judge(bearer, [authority.certificate], wanted.names, wanted.now)
    reasons = tuple(problem.fact for problem in problems)
    if not reasons and _is_worth_renewing(present, authority.certificate, wanted.now):
        return (f"two thirds of its life are gone, it ends at {present.not_valid_after_utc}",)
    return reasons


def _is_worth_renewing(
    present: x509.Certificate, authority: x509.Certificate, now: datetime
) -> bool:
    """Say so only while a new one would last longer: nothing outlives the CA."""
    longer = present.not_valid_after_utc < authority.not_valid_after_utc
    return longer and certificates.is_old(present, now)
