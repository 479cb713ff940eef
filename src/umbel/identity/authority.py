"""One CA per federation, on disk.

`ca.key` is what counts: the private key, the CA's certificate, and those of former CAs that are
still trusted, in one file, so that a rotation happens in one step or not at all. `ca.crt` (the CA)
and `bundle.crt` (all that is trusted) are copies for others to read, made again when they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from umbel.errors import SecurityError
from umbel.files import write_private
from umbel.identity import disk, issuance, pkcs8
from umbel.identity.certificates import HOW_TO_ROTATE

_MARK = b"-----BEGIN CERTIFICATE-----"


class AuthorityMissing(SecurityError):
    """There is no CA in the folder."""

    code = "U401"

    def __init__(self, folder: Path) -> None:
        super().__init__(f"there is no CA in {folder}", hint="`umbel up` makes one")


class AuthorityDamaged(SecurityError):
    """The CA's files cannot be used."""

    code = "U402"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} {why}",
            hint="restore the folder from a backup; without one, remove it: "
            "`umbel up` makes a new CA, and every site must enrol again",
        )


class SecretNeeded(SecurityError):
    """The CA's key is encrypted and no secret was given."""

    code = "U403"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is encrypted, and the document gives no secret for it",
            hint="name the file with the secret in spec.security.caKey",
        )


class SecretWrong(SecurityError):
    """The secret does not open the CA's key."""

    code = "U404"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the secret does not open {path}",
            hint="give the one that it was encrypted with; if it is the right one, "
            "the file is damaged: restore it from a backup",
        )


class SecretUnused(SecurityError):
    """The document declares a secret, but the CA's key is not encrypted."""

    code = "U405"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the document declares a secret, but {path} is not encrypted",
            hint="take spec.security.caKey out of the document, or make a new CA that is "
            f"encrypted: {HOW_TO_ROTATE}",
        )


class AuthorityExpired(SecurityError):
    """The CA's life is over: whatever it signs is refused."""

    code = "U406"

    def __init__(self, certificate: x509.Certificate) -> None:
        super().__init__(
            f"the CA {certificate.subject.rfc4514_string()} "
            f"ended at {certificate.not_valid_after_utc}",
            hint=HOW_TO_ROTATE,
        )


class AuthorityForeign(SecurityError):
    """The folder holds the CA of another federation."""

    code = "U408"

    def __init__(self, folder: Path, certificate: x509.Certificate, federation: str) -> None:
        super().__init__(
            f"{folder} holds {certificate.subject.rfc4514_string()}, "
            f"not the CA of federation {federation!r}",
            hint="each federation has a folder of its own: check UMBEL_HOME",
        )


class AuthorityNotYetValid(SecurityError):
    """By this machine's clock the CA does not exist yet."""

    code = "U409"

    def __init__(self, certificate: x509.Certificate, now: datetime) -> None:
        super().__init__(
            f"the CA begins at {certificate.not_valid_before_utc}, and here it is {now}",
            hint="this machine's clock is behind: set it (NTP) and repeat the command",
        )


@dataclass(frozen=True, slots=True)
class Authority:
    """The CA of one federation; whoever holds this can make servers that all sites believe."""

    folder: Path
    signer: issuance.Signer = field(repr=False)
    former: tuple[x509.Certificate, ...] = ()

    @property
    def certificate(self) -> x509.Certificate:
        """The CA's own certificate."""
        return self.signer.certificate

    @property
    def certificate_path(self) -> Path:
        """The CA's own certificate, alone."""
        return self.folder / "ca.crt"

    @property
    def bundle_path(self) -> Path:
        """What clients should trust, as a file."""
        return self.folder / "bundle.crt"

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """This CA, and during a rotation the former ones."""
        return (self.certificate, *self.former)

    @classmethod
    def create(
        cls, folder: Path, federation: str, *, now: datetime, days: int, secret: bytes | None
    ) -> Self:
        """Make the federation's CA, or load the one that is there."""
        subject = issuance.authority_subject(federation)
        with disk.locked(folder):
            if not _is_there(folder):
                made = cls(folder, issuance.self_signed(subject, now=now, days=days))
                _store(made, secret)
                return made
        found = cls.load(folder, secret)
        if found.certificate.subject != subject:
            raise AuthorityForeign(folder, found.certificate, federation)
        return found

    @classmethod
    def load(cls, folder: Path, secret: bytes | None) -> Self:
        """Read the CA; copies that are missing or differ are made again."""
        found = cls._read(folder, secret)
        if not _is_published(folder, found.trusted):
            with disk.locked(folder):
                found = cls._read(folder, secret)  # somebody may have rotated meanwhile
                _publish(folder, found.trusted)
        return found

    def issue(
        self,
        csr_pem: bytes | ec.EllipticCurvePublicKey,
        names: Sequence[str],
        *,
        now: datetime,
        days: int,
        server: bool = True,
    ) -> bytes:
        """Sign a certificate (PEM) for these names; what names the request holds is ignored."""
        if now >= self.certificate.not_valid_after_utc:
            raise AuthorityExpired(self.certificate)
        if now < self.certificate.not_valid_before_utc:
            raise AuthorityNotYetValid(self.certificate, now)
        key = issuance.requested_key(csr_pem) if isinstance(csr_pem, bytes) else csr_pem
        made = issuance.leaf(self.signer, key, names, issuance.Term(now, days), server=server)
        return made.public_bytes(serialization.Encoding.PEM)

    def rotate(self, *, now: datetime, days: int, secret: bytes | None) -> Self:
        """Put a new CA in this one's place; this one stays trusted until it is dropped.

        When somebody else has replaced this CA already, theirs is taken. `secret` encrypts the
        new key, and opens theirs.
        """
        with disk.locked(self.folder):
            parts = _Parts.read(self.folder)
            if parts.certificates[0] == self.certificate:
                signer = issuance.self_signed(self.certificate.subject, now=now, days=days)
                alive = [c for c in parts.certificates if now < c.not_valid_after_utc]
                made = replace(self, signer=signer, former=tuple(alive))
                _store(made, secret)
                return made
        return self.load(self.folder, secret)

    def give_way(self, successor: Authority, *, now: datetime) -> Self:
        """Put another CA, made beforehand, in this one's place; this one stays trusted."""
        with disk.locked(self.folder):
            alive = [c for c in self.trusted if now < c.not_valid_after_utc]
            made = replace(self, signer=successor.signer, former=tuple(alive))
            _store(made, None)
        return made

    def drop_former(self) -> Self:
        """End the overlap: those that this CA replaced are trusted no longer."""
        with disk.locked(self.folder):
            parts = _Parts.read(self.folder)
            trusted = [c for c in parts.certificates if c not in self.former]
            write_private(self.folder / "ca.key", parts.key_pem + _pem(*trusted))
            _publish(self.folder, trusted)
        return replace(self, former=())

    @classmethod
    def _read(cls, folder: Path, secret: bytes | None) -> Self:
        parts = _Parts.read(folder)
        key = parts.open(folder / "ca.key", secret)
        present, *former = parts.certificates
        if key.public_key() != present.public_key():
            raise AuthorityDamaged(folder / "ca.key", "holds a key and a certificate that differ")
        return cls(folder, issuance.Signer(present, key), tuple(former))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of `ca.key`: the key, perhaps encrypted, and the certificates."""

    key_pem: bytes = field(repr=False)
    certificates: tuple[x509.Certificate, ...]

    @classmethod
    def read(cls, folder: Path) -> Self:
        if not _is_there(folder):
            raise AuthorityMissing(folder)
        path = folder / "ca.key"
        key_pem, mark, rest = (disk.read_private(path) or b"").partition(_MARK)
        try:
            return cls(key_pem, tuple(x509.load_pem_x509_certificates(mark + rest)))
        except ValueError as error:
            raise AuthorityDamaged(path, "holds no certificate that can be read") from error

    def open(self, path: Path, secret: bytes | None) -> ec.EllipticCurvePrivateKey:
        encrypted = self.key_pem.startswith(pkcs8.BEGIN)
        if encrypted and not secret:
            raise SecretNeeded(path)
        if secret and self.key_pem and not encrypted:
            raise SecretUnused(path)
        try:
            key = serialization.load_pem_private_key(self.key_pem, secret or None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            wrong = SecretWrong(path) if encrypted else AuthorityDamaged(path, "holds no key")
            raise wrong from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise AuthorityDamaged(path, "holds a key of another kind")
        return key


def _is_there(folder: Path) -> bool:
    if (folder / "ca.key").exists():
        return True
    if (folder / "ca.crt").exists():  # a new CA in its place would lock every site out
        raise AuthorityDamaged(folder / "ca.key", "is not there, but ca.crt is")
    return False


def _store(made: Authority, secret: bytes | None) -> None:
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    if secret:
        der = made.signer.key.private_bytes(serialization.Encoding.DER, *plain)
        key_pem = pkcs8.encrypt(der, secret)
    else:
        key_pem = made.signer.key.private_bytes(serialization.Encoding.PEM, *plain)
    write_private(made.folder / "ca.key", key_pem + _pem(*made.trusted))
    _publish(made.folder, made.trusted)


def _publish(folder: Path, trusted: Sequence[x509.Certificate]) -> None:
    # Trust first: nobody should meet a certificate by the new CA before its bundle is there.
    disk.write_changed(folder / "bundle.crt", _pem(*trusted), mode=0o644)
    disk.write_changed(folder / "ca.crt", _pem(trusted[0]), mode=0o644)


def _is_published(folder: Path, trusted: Sequence[x509.Certificate]) -> bool:
    alone = disk.read(folder / "ca.crt") == _pem(trusted[0])
    return alone and disk.read(folder / "bundle.crt") == _pem(*trusted)


def _pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(c.public_bytes(serialization.Encoding.PEM) for c in certificates)
