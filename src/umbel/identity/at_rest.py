"""The secret that encrypts the CA's key at rest, read from the file that the document names."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from umbel.errors import SecurityError
from umbel.identity.disk import IdentityUnreadable
from umbel.model.federation import CaKey

_LONGEST_PASSPHRASE = 1023  # OpenSSL's limit
_LONGEST_FILE = 1 << 20


class SecretExposed(SecurityError):
    """Others may read the file with the CA's secret."""

    code = "U419"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} {why}",
            hint=f"take it away from everybody else: chmod 600 {path}; then choose a new secret",
        )


class SecretEmpty(SecurityError):
    """The file with the CA's secret holds nothing."""

    code = "U420"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is empty", hint="write the secret into it")


class SecretTooLong(SecurityError):
    """The file holds more than a secret can be."""

    code = "U422"

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(
            f"{path} holds more than {limit} bytes",
            hint="a passphrase may have 1023 bytes; use keyFile for a longer secret (1 MiB)",
        )


def read_secret(ca_key: CaKey) -> bytes:
    """Give the secret, if only its owner can read it.

    A passphrase counts without one newline at its end. Of a key file every byte counts, and
    its SHA-256 is the secret: it may be binary and longer than a passphrase can be.
    """
    if ca_key.passphrase_file is not None:
        path = Path(ca_key.passphrase_file).expanduser()
        return _passphrase(path, _read_closed(path))
    path = Path(ca_key.key_file or "").expanduser()
    return hashlib.sha256(_read_closed(path)).hexdigest().encode()


def exposure(mode: int, owner: int, me: int) -> str:
    """Say how others could read a file of this mode and owner, or nothing."""
    if mode & 0o077:
        return f"can be read by others (mode {stat.S_IMODE(mode):04o})"
    if owner not in (me, 0):
        return f"belongs to another user ({owner})"
    return ""


def _passphrase(path: Path, content: bytes) -> bytes:
    text = content.removesuffix(b"\r\n" if content.endswith(b"\r\n") else b"\n")
    if not text:
        raise SecretEmpty(path)
    if len(text) > _LONGEST_PASSPHRASE:
        raise SecretTooLong(path, _LONGEST_PASSPHRASE)
    return text


def _read_closed(path: Path) -> bytes:
    """Read what was looked at: the open file is judged, not its name."""
    try:
        with path.open("rb") as file:
            seen = os.fstat(file.fileno())
            if why := exposure(seen.st_mode, seen.st_uid, os.geteuid()):
                raise SecretExposed(path, why)
            content = file.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise IdentityUnreadable(path, error) from error
    if not content:
        raise SecretEmpty(path)
    if len(content) > _LONGEST_FILE:
        raise SecretTooLong(path, _LONGEST_FILE)
    return content
