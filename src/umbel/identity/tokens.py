"""Secrets that are shown at a door: people's tokens, and the executors' secret."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from umbel.errors import SecurityError
from umbel.files import CannotWrite, write_private
from umbel.identity import disk
from umbel.identity.names import plain
from umbel.model.federation import User

PREFIX = "umbel_"  # lets scanners for leaked secrets know what they found
_BYTES = 32
_FORM = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")


class TokenDamaged(SecurityError):
    """A token file does not hold a token."""

    code = "U416"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} does not hold a token", hint="remove it: `umbel up` issues a new one"
        )


class UserTwice(SecurityError):
    """The same user is declared twice, perhaps with two roles."""

    code = "U417"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"user {name!r} is declared more than once",
            hint="keep one of them in spec.security.users",
        )


def digest(token: str) -> str:
    """Give what the gate may know of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def path_of(folder: Path, name: str) -> Path:
    """Say where a user's token is."""
    return folder / f"{plain(name)}.token"


def issue(folder: Path, name: str) -> Path:
    """Make a new token for the user; a former one is gone."""
    path = path_of(folder, name)
    with disk.locked(folder):
        write_private(path, _new())
    return path


def ensure(folder: Path, name: str) -> Path:
    """Leave a token for the user, made now if there is none."""
    path = path_of(folder, name)
    with disk.locked(folder):
        if disk.read_private(path) is None:
            write_private(path, _new())
    return path


def load(path: Path) -> str:
    """Read a token."""
    text = (disk.read_private(path) or b"").decode("ascii", "replace").strip()
    if not _FORM.fullmatch(text):
        raise TokenDamaged(path)
    return text


def revoke(folder: Path, name: str) -> bool:
    """Remove the user's token; say whether there was one."""
    path = path_of(folder, name)
    with disk.locked(folder):
        if disk.read(path) is None:
            return False
        try:
            path.unlink()
        except OSError as error:
            raise CannotWrite(path, error) from error
    return True


def prune(folder: Path, keep: Collection[str]) -> tuple[str, ...]:
    """Revoke the tokens of all others, so that who comes back gets a new one; name them."""
    held = sorted(path.stem for path in folder.glob("*.token"))
    return tuple(name for name in held if name not in keep and revoke(folder, name))


def write_users(path: Path, users: Sequence[User], tokens_folder: Path) -> bool:
    """Tell the gate who may come in; users without a token get one. Says whether it changed."""
    doubled = [name for name, times in Counter(user.name for user in users).items() if times > 1]
    if doubled:
        raise UserTwice(doubled[0])
    entries = [
        {
            "name": user.name,
            "role": user.role.value,
            "sha256": digest(load(ensure(tokens_folder, user.name))),
        }
        for user in users
    ]
    with disk.locked(path.parent):
        return disk.write_changed(path, json.dumps(entries, indent=1).encode() + b"\n")


def ensure_secret(path: Path) -> Path:
    """Leave a file of random bytes, such as Flower's SuperExec secret; every byte counts."""
    with disk.locked(path.parent):
        if not disk.read_private(path):
            write_private(path, secrets.token_bytes(_BYTES))
    return path


def _new() -> str:
    return f"{PREFIX}{secrets.token_urlsafe(_BYTES)}\n"
