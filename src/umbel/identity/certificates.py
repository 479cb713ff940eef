"""Certificates on disk: what they say, when they want renewal, what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from umbel.errors import SecurityError
from umbel.identity import disk
from umbel.identity.names import alternatives
from umbel.model.status import CertificateStatus

HOW_TO_ROTATE = (
    "`umbel up --rotate-ca` makes a new CA, keeps the old one trusted for a while, "
    "and renews every certificate"
)
_RENEWED_BY_UP = "`umbel up` renews it"
_SET_THE_CLOCK = "compare `date -u` here with the other machines; switch NTP on"


class CertificateUnreadable(SecurityError):
    """A certificate is not there or is damaged."""

    code = "U412"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}", hint="`umbel up` makes it again")


class Trouble(StrEnum):
    """What can be wrong with a server's certificate."""

    MISSING = "missing"
    DAMAGED = "damaged"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    KEY_MISMATCH = "key-mismatch"
    WRONG_CA = "wrong-ca"
    MISSING_NAME = "missing-name"
    CA_EXPIRED = "ca-expired"
    CA_NOT_YET_VALID = "ca-not-yet-valid"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and what to do about it."""

    trouble: Trouble
    fact: str
    hint: str


@dataclass(frozen=True, slots=True)
class Bearer:
    """A server's certificate with its private half, as found on disk."""

    certificate: x509.Certificate
    public_key: ec.EllipticCurvePublicKey  # of the key file, not of the certificate


def load(path: Path) -> x509.Certificate:
    """Read the first certificate of the file."""
    return load_all(path)[0]


def load_all(path: Path) -> tuple[x509.Certificate, ...]:
    """Read every certificate of the file; there is at least one."""
    content = disk.read(path)
    if content is None:
        raise CertificateUnreadable(path, "is not there")
    try:
        return tuple(x509.load_pem_x509_certificates(content))
    except ValueError as error:
        raise CertificateUnreadable(path, "is not a certificate") from error


def describe(path: Path, now: datetime) -> CertificateStatus:
    """Say whose certificate it is and when it ends."""
    found = load(path)
    return CertificateStatus(
        name=path.stem,
        subject=found.subject.rfc4514_string(),
        not_after=found.not_valid_after_utc.isoformat(),
        days_left=(found.not_valid_after_utc - now).days,
    )


def needs_renewal(path: Path, now: datetime) -> bool:
    """Say whether two thirds of its life are gone."""
    return is_old(load(path), now)


def is_old(certificate: x509.Certificate, now: datetime) -> bool:
    """Say whether two thirds of its life are gone."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begin + (end - begin) * 2 / 3


def check(
    cert: Path, key: Path, ca: Path, names: Sequence[str], now: datetime
) -> tuple[Problem, ...]:
    """Name everything that would make a client refuse this server; empty means all is well.

    `ca` may hold several certificates, as during a rotation: one of them must have signed.
    """
    problems = [p for path in (cert, key, ca) if (p := _missing(path))]
    if problems:
        return tuple(problems)
    try:
        bearer = Bearer(load(cert), load_public_half(key))
        authorities = load_all(ca)
    except CertificateUnreadable as error:
        return (Problem(Trouble.DAMAGED, error.fact, error.hint),)
    return tuple(judge(bearer, authorities, names, now))


def judge(
    bearer: Bearer, authorities: Sequence[x509.Certificate], names: Sequence[str], now: datetime
) -> Iterator[Problem]:
    """Name what is wrong, without looking at the disk."""
    found = bearer.certificate
    end = found.not_valid_after_utc
    if now >= end:
        yield Problem(Trouble.EXPIRED, f"the certificate ended at {end}", _RENEWED_BY_UP)
    if now < (begin := found.not_valid_before_utc):
        fact = f"the certificate begins at {begin}, and here it is {now}"
        yield Problem(Trouble.NOT_YET_VALID, fact, _SET_THE_CLOCK)
    if found.public_key() != bearer.public_key:
        fact = "the private key is not the one of the certificate"
        yield Problem(Trouble.KEY_MISMATCH, fact, _RENEWED_BY_UP)
    yield from _judge_issuer(found, authorities, now)
    yield from _judge_names(found, names)


def _judge_issuer(
    found: x509.Certificate, authorities: Sequence[x509.Certificate], now: datetime
) -> Iterator[Problem]:
    issuer = next((ca for ca in authorities if is_issued_by(found, ca)), None)
    if issuer is None:
        fact = f"the certificate was signed by another CA than {_subject(authorities[0])}"
        yield Problem(Trouble.WRONG_CA, fact, _RENEWED_BY_UP)
    elif now >= issuer.not_valid_after_utc:
        fact = f"the CA ended at {issuer.not_valid_after_utc}"
        yield Problem(Trouble.CA_EXPIRED, fact, HOW_TO_ROTATE)
    elif now < issuer.not_valid_before_utc:
        fact = f"the CA begins at {issuer.not_valid_before_utc}, and here it is {now}"
        yield Problem(Trouble.CA_NOT_YET_VALID, fact, _SET_THE_CLOCK)


def _judge_names(found: x509.Certificate, names: Sequence[str]) -> Iterator[Problem]:
    wanted = alternatives(names) if names else ()
    lacking = [str(name.value) for name in wanted if name not in _names_of(found)]
    if lacking:
        fact = f"the certificate does not name {', '.join(lacking)}"
        yield Problem(Trouble.MISSING_NAME, fact, _RENEWED_BY_UP)


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Say whether this authority's key signed it, under this authority's name."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def load_public_half(path: Path) -> ec.EllipticCurvePublicKey:
    """Read a server's private key, and give only what it shows to others."""
    try:
        key = serialization.load_pem_private_key(disk.read(path) or b"", password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateUnreadable(path, "is not a private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateUnreadable(path, "is not an elliptic curve key")
    return key.public_key()


def _names_of(certificate: x509.Certificate) -> frozenset[x509.GeneralName]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    return frozenset(extension.value)


def _missing(path: Path) -> Problem | None:
    if disk.read(path) is not None:
        return None
    return Problem(Trouble.MISSING, f"{path} is not there", "`umbel up` makes it")


def _subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()
