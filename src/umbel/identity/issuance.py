"""What our certificates look like. Makes them in memory; touches no file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from umbel.errors import SecurityError
from umbel.identity.names import alternatives

BACKDATED = timedelta(minutes=5)  # for clocks that are a little behind ours
_LONGEST_COMMON_NAME = 64
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)


class RequestRefused(SecurityError):
    """Somebody asked for a certificate with something that is no proper request."""

    code = "U407"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"no certificate for this request: {why}",
            hint="send a PEM PKCS#10 request with an EC key (P-256, P-384 or P-521)",
        )


@dataclass(frozen=True, slots=True)
class Signer:
    """A CA's certificate and the key that signs."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Make a P-256 key: as strong as needed, and fast."""
    return ec.generate_private_key(ec.SECP256R1())


def authority_subject(federation: str) -> x509.Name:
    """Name the CA of a federation."""
    return _common_name(f"umbel {federation} CA")


def self_signed(subject: x509.Name, *, now: datetime, days: int) -> Signer:
    """Make a CA that may sign leaves and nothing below them."""
    key = new_key()
    begin = (now - BACKDATED).replace(microsecond=0)
    builder = (
        _begun(subject, key.public_key(), begin, begin + timedelta(days=days))
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
    )
    return Signer(builder.sign(key, hashes.SHA256()), key)


@dataclass(frozen=True, slots=True)
class Term:
    """From now on, for so many days."""

    now: datetime
    days: int

    def within(self, authority: x509.Certificate) -> tuple[datetime, datetime]:
        """Begin a little earlier and end in time, never outside the CA's own life."""
        begin = (self.now - BACKDATED).replace(microsecond=0)
        end = begin + BACKDATED + timedelta(days=self.days)
        return (
            max(begin, authority.not_valid_before_utc),
            min(end, authority.not_valid_after_utc),
        )


def leaf(
    signer: Signer,
    public_key: ec.EllipticCurvePublicKey,
    names: Sequence[str],
    term: Term,
    *,
    server: bool = True,
) -> x509.Certificate:
    """Make a certificate for one server (or client) that answers to these names."""
    wanted = alternatives(names)
    subject = _leaf_subject(wanted)
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _begun(subject, public_key, *term.within(signer.certificate))
        .issuer_name(signer.certificate.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        # RFC 5280: without a subject the alternative names carry the identity alone
        .add_extension(x509.SubjectAlternativeName(wanted), critical=not list(subject))
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
            critical=False,
        )
    )
    return builder.sign(signer.key, hashes.SHA256())


def request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """Ask for a certificate for this key (PEM PKCS#10); the CA decides about the names."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_common_name(name))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def requested_key(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
    """Give the key of a request whose sender holds the private half."""
    try:
        asked = x509.load_pem_x509_csr(csr_pem)
        key = asked.public_key()
        proven = asked.is_signature_valid
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RequestRefused("it cannot be read") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, _CURVES):
        raise RequestRefused("its key is of another kind")
    if not proven:
        raise RequestRefused("its signature is wrong")
    return key


def _begun(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _leaf_subject(names: Sequence[x509.GeneralName]) -> x509.Name:
    first = str(names[0].value)
    return _common_name(first) if len(first) <= _LONGEST_COMMON_NAME else x509.Name([])


def _common_name(text: str) -> x509.Name:
    if len(text) > _LONGEST_COMMON_NAME:
        mark = hashlib.sha256(text.encode()).hexdigest()[:8]
        text = f"{text[: _LONGEST_COMMON_NAME - 9]}~{mark}"
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*allowed: str) -> x509.KeyUsage:
    every = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: name in allowed for name in every})
