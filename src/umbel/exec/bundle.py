"""A bundle of wheels, signed: checked before an environment is built from it.

The folder has a list of every file's hash, as `sha256sum` writes it, and a signature of the list.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from umbel.errors import SecurityError

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"


class BundleRefused(SecurityError):
    """A bundle of wheels is not what somebody trusted has signed."""

    code = "U450"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the bundle of wheels is refused: {why}",
            hint="sign it again with a key that the document names, or mend its image",
        )


def verify(folder: Path, keys: Sequence[str]) -> None:
    """Return when one of the keys has signed exactly what is in the folder."""
    try:
        sums, signature = (folder / SUMS).read_bytes(), (folder / SIGNATURE).read_bytes()
        found = {path.name: path for path in folder.iterdir()}
    except OSError as error:
        raise BundleRefused(f"it has no {Path(error.filename or SUMS).name}") from error
    if not any(_is_signed(key, sums, signature) for key in keys):
        raise BundleRefused("no key that the document names has signed it")
    listed = _read(sums)
    if strange := sorted(found.keys() - listed.keys() - {SUMS, SIGNATURE}):
        raise BundleRefused(f"{strange[0]} is not in its list")
    for name, wanted in listed.items():
        if name not in found or not found[name].is_file():
            raise BundleRefused(f"{name} is in its list, and not there")
        with found[name].open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != wanted:
                raise BundleRefused(f"{name} is not what was signed")


def _is_signed(key: str, content: bytes, signature: bytes) -> bool:
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key, validate=True))
        public.verify(signature, content)
    except (ValueError, InvalidSignature):
        return False
    return True


def _read(sums: bytes) -> dict[str, str]:
    listed: dict[str, str] = {}
    for line in sums.decode(errors="replace").splitlines():
        digest, _, name = line.partition(" ")
        listed[name.lstrip(" *").removeprefix("./")] = digest
    return listed
