"""Names that may stand in a certificate or name a file."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from cryptography import x509

from umbel.errors import SecurityError

_LABEL = re.compile(r"[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # what resolvers read as the end of an IPv4 address
_PLAIN = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_DNS_NAME = 253


class BadName(SecurityError):
    """A name cannot stand in a server certificate."""

    code = "U400"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"{name!r} cannot stand in a certificate: {why}",
            hint="give the DNS name or IP address that clients dial, such as fl.example.org",
        )


class NotAName(SecurityError):
    """Something that must name a file is not a plain name."""

    code = "U418"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is not a name",
            hint="use lower-case letters, digits and hyphens, 63 at most",
        )


def plain(name: str) -> str:
    """Give the name back if it is safe as a file's name."""
    if not _PLAIN.fullmatch(name):
        raise NotAName(name)
    return name


def alternatives(names: Sequence[str]) -> tuple[x509.GeneralName, ...]:
    """Tell DNS names from IP addresses, each once, in the given order."""
    if not names:
        raise BadName("", "a server certificate needs at least one name")
    return tuple(dict.fromkeys(alternative(name) for name in names))


def alternative(name: str) -> x509.GeneralName:
    """Read one name as a client would: an address if it can be one, else a DNS name."""
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return x509.DNSName(_dns(name))
    if address.is_unspecified or address.is_multicast:
        raise BadName(name, "nobody can dial this address")
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise BadName(name, "an address with a zone means something else on every machine")
    return x509.IPAddress(address)


def _dns(name: str) -> str:
    if not name.isascii():
        raise BadName(name, "it is not ASCII; write it in its xn-- form")
    text = name.lower().removesuffix(".")
    labels = text.split(".")
    if "*" in text:
        raise BadName(name, "wildcards are not issued")
    if len(text) > _LONGEST_DNS_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise BadName(name, "it is neither a DNS name nor an IP address")
    if _NUMBER.fullmatch(labels[-1]):
        raise BadName(name, "it looks like an IP address but is none")
    return text
