"""The hub's identity on Kubernetes: the CA, the gate's certificate, people's tokens, as Secrets.

The CA's Secret is in the operator's own namespace: who owns the federation's namespace cannot read
it. What makes and judges certificates works on folders; so for a moment there is one, in memory.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from umbel.files import ensure_private_folder, write_private
from umbel.identity import certificates, leaves, tokens
from umbel.identity.authority import Authority
from umbel.model.federation import OWNER, Federation, User
from umbel.model.status import CertificateStatus
from umbel.planning.render import users
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.pods import Object

MEMORY = Path("/dev/shm")  # noqa: S108  # where a private folder never reaches a disk
LOOK_AGAIN = timedelta(minutes=10)
LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What the cluster keeps for us, by the Secret's name."""

    authority: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    gate: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    tokens: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # by user


@dataclass(frozen=True, slots=True)
class Identity:
    """What the hub shows and trusts. `objects` are the Secrets that have to change."""

    bundle: str
    owner_token: str = field(repr=False)
    certificates: tuple[CertificateStatus, ...]
    secrets: Secrets = field(repr=False)
    good_until: datetime


def settle(
    federation: Federation, names: Names, hosts: Sequence[str], held: Secrets, system: str
) -> tuple[Identity, list[Object]]:
    """Make what is missing, renew what ends; gives the identity and the Secrets to write."""
    now = datetime.now(UTC)
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as made:
        root = Path(made)
        _lay_out(root, held)
        security = federation.spec.security
        authority = Authority.create(
            root / "ca", names.owner, now=now, days=security.ca_days, secret=None
        )
        wanted = sorted({*hosts, *names.service_hosts, *LOOPBACK})
        leaves.ensure(
            authority, root / "gate", "server", wanted, now=now, days=security.certificate_days
        )
        people = users(federation)
        allowed = [User.model_validate({"name": n, "role": r}) for n, r in people.items()]
        ensure_private_folder(root / "tokens")
        tokens.write_users(root / "gate" / "users.json", allowed, root / "tokens")
        fresh = _picked_up(root, people)
        identity = Identity(
            bundle=authority.bundle_path.read_text(),
            owner_token=fresh.tokens[OWNER].decode().strip(),
            certificates=_described(root, now),
            secrets=fresh,
            good_until=now + LOOK_AGAIN,
        )
    return identity, _changed(names, identity, held, system)


def _lay_out(root: Path, held: Secrets) -> None:
    """Put what the cluster keeps into files; what can be made again is left to be."""
    for folder, content in (("ca", held.authority), ("gate", held.gate)):
        ensure_private_folder(root / folder)
        for name, value in content.items():
            write_private(root / folder / Path(name).name, value)
    ensure_private_folder(root / "tokens")
    for user, token in held.tokens.items():
        write_private(tokens.path_of(root / "tokens", user), token)


def _picked_up(root: Path, people: Mapping[str, str]) -> Secrets:
    gate = {n: (root / "gate" / n).read_bytes() for n in ("server.key", "server.crt", "users.json")}
    found = {user: tokens.path_of(root / "tokens", user).read_bytes() for user in people}
    return Secrets({"ca.key": (root / "ca" / "ca.key").read_bytes()}, gate, found)


def _described(root: Path, now: datetime) -> tuple[CertificateStatus, ...]:
    found = []
    for name, path in (("ca", root / "ca" / "ca.crt"), ("gate", root / "gate" / "server.crt")):
        seen = certificates.describe(path, now)
        found.append(CertificateStatus(name, seen.subject, seen.not_after, seen.days_left))
    return tuple(found)


def _changed(names: Names, identity: Identity, held: Secrets, system: str) -> list[Object]:
    fresh, found = identity.secrets, []
    if dict(fresh.authority) != dict(held.authority):
        found.append(_secret(names, names.authority_secret, system, fresh.authority))
    if dict(fresh.gate) != dict(held.gate):
        found.append(_secret(names, names.gate_secret, names.namespace, fresh.gate))
    for user, token in fresh.tokens.items():
        if held.tokens.get(user) != token:
            content = {"token": token, "ca.crt": identity.bundle.encode()}
            found.append(_secret(names, names.user_secret(user), names.namespace, content))
    return found


def _secret(names: Names, name: str, namespace: str, content: Mapping[str, bytes]) -> Object:
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": names.metadata(name, "hub", namespace=namespace),
        "type": "Opaque",
        "data": data,
    }


def read(secret: Object | None) -> dict[str, bytes]:
    """Give what a Secret holds; nothing when there is none."""
    data = (secret or {}).get("data") or {}
    return {key: base64.b64decode(value) for key, value in data.items()}


def mark(secrets: Secrets) -> str:
    """Name what is held, so that nothing is made twice from it."""
    text = hashlib.sha256()
    for part in (secrets.authority, secrets.gate, secrets.tokens):
        for key, value in sorted(part.items()):
            text.update(key.encode() + b"\0" + value + b"\0")
    return text.hexdigest()
