"""The hub's identity on Kubernetes: the CA, the gate's certificate, people's tokens, as Secrets.

The CA's Secret is in the operator's own namespace: who owns the federation's namespace cannot read
it. What makes and judges certificates works on folders; so for a moment there is one, in memory.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
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
ROTATE = "umbel.dev/rotate-ca"  # annotation on a Federation: another value, another CA
NEXT = "next.key"  # in the CA's Secret: the CA that is on its way
ROTATION = "rotation"  # in the CA's Secret: the last change that was asked for and begun
SINCE = "since"  # in the CA's Secret: what is trusted, and since when
GATE_FILES = ("server.key", "server.crt", "users.json")
LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What the cluster keeps for us, by the Secret's name."""

    authority: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    gate: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    tokens: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # by user
    shown: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # the CA beside each token


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the identity should be."""

    federation: Federation
    names: Names
    hosts: Sequence[str]
    system: str  # the namespace of the CA
    spread: bool = False  # everybody trusts what is published now

    @property
    def rotation(self) -> str:
        """Name the CA change that was asked for last."""
        return self.federation.metadata.annotations.get(ROTATE, "")


@dataclass(frozen=True, slots=True)
class Identity:
    """What the hub shows and trusts."""

    bundle: str
    changing: str  # what is still to be done of a CA change; empty: nothing
    owner_token: str = field(repr=False)
    certificates: tuple[CertificateStatus, ...]
    secrets: Secrets = field(repr=False)
    good_until: datetime


def settle(wanted: Wanted, held: Secrets) -> tuple[Identity, list[Object]]:
    """Make what is missing, renew what ends; gives the identity and the Secrets to write.

    A CA changes in three steps, each when everybody has the one before: the new one is trusted, the
    new one signs, the old one is trusted no longer.
    """
    now, names, federation = datetime.now(UTC), wanted.names, wanted.federation
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as made:
        root = Path(made)
        _lay_out(root, held)
        security = federation.spec.security
        authority = Authority.create(
            root / "ca", names.owner, now=now, days=security.ca_days, secret=None
        )
        authority, changing = _change_ca(root, authority, wanted, held, now)
        answers = sorted({*wanted.hosts, *names.service_hosts, *LOOPBACK})
        leaves.ensure(
            authority, root / "gate", "server", answers, now=now, days=security.certificate_days
        )
        people = users(federation)
        allowed = [User.model_validate({"name": n, "role": r}) for n, r in people.items()]
        ensure_private_folder(root / "tokens")
        tokens.write_users(root / "gate" / "users.json", allowed, root / "tokens")
        fresh = _picked_up(root, people, held, wanted)
        identity = Identity(
            bundle=_bundle(root),
            changing=changing,
            owner_token=fresh.tokens[OWNER].decode().strip(),
            certificates=_described(root, now),
            secrets=fresh,
            good_until=now + LOOK_AGAIN,
        )
    return identity, _changed(names, identity, held, wanted.system)


def _change_ca(
    root: Path, authority: Authority, wanted: Wanted, held: Secrets, now: datetime
) -> tuple[Authority, str]:
    """Take the next step of a CA change, if there is one to take."""
    folder, days = root / "next", wanted.federation.spec.security.ca_days
    done = held.authority.get(ROTATION, b"").decode()
    if (folder / "ca.key").exists():
        if not wanted.spread:
            return authority, "a new CA is on its way to the sites"
        successor = Authority.load(folder, None)
        shutil.rmtree(folder)
        return authority.give_way(successor, now=now), "the new CA signs, the old one is trusted"
    if authority.former:
        if not wanted.spread:
            return authority, "the new CA signs, the old one is trusted"
        return authority.drop_former(), ""
    if wanted.rotation and wanted.rotation != done:
        Authority.create(folder, wanted.names.owner, now=now, days=days, secret=None)
        return authority, "a new CA is on its way to the sites"
    return authority, ""


def _bundle(root: Path) -> str:
    """Give everything that is trusted: the CA, former ones, and the next one."""
    files = (root / "ca" / "bundle.crt", root / "next" / "ca.crt")
    return "".join(path.read_text() for path in files if path.exists())


def _lay_out(root: Path, held: Secrets) -> None:
    """Put what the cluster keeps into files; what can be made again is left to be."""
    for folder in ("ca", "gate", "tokens"):
        ensure_private_folder(root / folder)
    if "ca.key" in held.authority:
        write_private(root / "ca" / "ca.key", held.authority["ca.key"])
    if NEXT in held.authority:
        write_private(ensure_private_folder(root / "next") / "ca.key", held.authority[NEXT])
        Authority.load(root / "next", None)  # its certificate is made again
    for name in GATE_FILES:
        if name in held.gate:
            write_private(root / "gate" / name, held.gate[name])
    for user, token in held.tokens.items():
        write_private(tokens.path_of(root / "tokens", user), token)


def _picked_up(root: Path, people: Mapping[str, str], held: Secrets, wanted: Wanted) -> Secrets:
    gate = {name: (root / "gate" / name).read_bytes() for name in GATE_FILES}
    found = {user: tokens.path_of(root / "tokens", user).read_bytes() for user in people}
    authority = {"ca.key": (root / "ca" / "ca.key").read_bytes()}
    coming = root / "next" / "ca.key"
    if coming.exists():
        authority[NEXT] = coming.read_bytes()
    if NEXT in held.authority and not coming.exists():
        authority[ROTATION] = wanted.rotation.encode()
    elif ROTATION in held.authority:
        authority[ROTATION] = held.authority[ROTATION]
    trusted = hashlib.sha256(_bundle(root).encode()).hexdigest()
    same = held.authority.get(SINCE, b"").decode().partition(" ")[0] == trusted
    now = f"{trusted} {datetime.now(UTC).isoformat(timespec='seconds')}".encode()
    authority[SINCE] = held.authority[SINCE] if same else now
    return Secrets(authority, gate, found)


def spread_for_s(held: Secrets) -> float:
    """Say how long the present trust has been published."""
    _, _, since = held.authority.get(SINCE, b"").decode().partition(" ")
    if not since:
        return 0.0
    return (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()


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
        if held.tokens.get(user) != token or held.shown.get(user) != identity.bundle.encode():
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
