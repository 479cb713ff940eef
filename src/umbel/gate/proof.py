"""Whether a site holds the key that it shows: Flower's signed timestamp, checked at the door."""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, TypeVar

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

K = TypeVar("K")
V = TypeVar("V")

KEY, TIMESTAMP, SIGNATURE = "flwr-public-key", "flwr-timestamp", "flwr-signature"
OLDEST_S, NEWEST_S = 305.0, -5.0  # as old, and as far ahead, as SuperLink takes

_REMEMBERED = 4096
_SCHEME = ec.ECDSA(SHA256())
_PEM = re.compile(
    rb"-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/=\n]{1,2048})-----END PUBLIC KEY-----\n?"
)


class Claim(NamedTuple):
    """The three headers of a site's call."""

    key: str
    timestamp: str
    signature: str


class Proofs:
    """Checks claims and remembers what was found true: a signature that held once, holds."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, tuple[str, ec.EllipticCurvePublicKey]] = OrderedDict()
        self._true: OrderedDict[Claim, None] = OrderedDict()

    def owner(self, key: str, owner_of: Callable[[str], str | None]) -> str | None:
        """Tell whose the shown key is. A key that nobody owns is neither parsed nor remembered."""
        if (cached := self._keys.get(key)) is not None:
            return owner_of(cached[0])
        if (der := _der(key)) is None:
            return None
        fingerprint = hashlib.sha256(der).hexdigest()
        owner = owner_of(fingerprint)
        if owner is None or (parsed := _parsed(der)) is None:
            return None
        _remember(self._keys, key, (fingerprint, parsed))
        return owner

    def holds(self, claim: Claim) -> bool:
        """Whether the timestamp was signed with the shown key, which must be an owned one."""
        if claim in self._true:
            return True
        cached = self._keys.get(claim.key)
        if cached is None or not _signed(cached[1], claim):
            return False
        _remember(self._true, claim, None)
        return True


def age_s(timestamp: str, now: float) -> float | None:
    """Tell how old a timestamp is; None if it is not one, or without a time zone."""
    try:
        signed_at = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return None if signed_at.tzinfo is None else now - signed_at.timestamp()


def _der(key: str) -> bytes | None:
    """Unwrap the header: base64 of a PEM block, exactly as Flower writes it."""
    try:
        pem = _PEM.fullmatch(b64decode(key, validate=True))
        return b64decode(pem[1].replace(b"\n", b""), validate=True) if pem else None
    except (binascii.Error, ValueError):
        return None


def _parsed(der: bytes) -> ec.EllipticCurvePublicKey | None:
    try:
        key = load_der_public_key(der)
    except (UnsupportedAlgorithm, ValueError):
        return None
    return key if isinstance(key, ec.EllipticCurvePublicKey) else None


def _signed(key: ec.EllipticCurvePublicKey, claim: Claim) -> bool:
    try:
        signature = b64decode(claim.signature, validate=True)
        key.verify(signature, claim.timestamp.encode("ascii"), _SCHEME)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _remember(table: OrderedDict[K, V], key: K, value: V) -> None:
    if len(table) >= _REMEMBERED:
        table.popitem(last=False)  # a plain dict would look for its first key for ever longer
    table[key] = value
