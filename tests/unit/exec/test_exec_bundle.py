from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from umbel.exec.bundle import SIGNATURE, SUMS, BundleRefused, verify

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
FILES = {"tiny-1.0-py3-none-any.whl": b"tiny", "flwr-1.41.0-py3-none-any.whl": b"flower"}


def public(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return base64.b64encode(raw).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a bundle as sha256sum and a signature with our key make it."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in FILES.items()]
    sums = "\n".join(lines).encode() + b"\n"
    (tmp_path / SUMS).write_bytes(sums)
    (tmp_path / SIGNATURE).write_bytes(KEY.sign(sums))
    return tmp_path


def test_what_one_of_the_keys_has_signed_is_taken(folder: Path) -> None:
    verify(folder, [public(KEY)])
    verify(folder, [public(OTHER), public(KEY)])


@pytest.mark.parametrize(
    "keys", [[], [public(OTHER)], ["no key"], [base64.b64encode(b"x").decode()]]
)
def test_what_nobody_trusted_has_signed_is_refused(folder: Path, keys: list[str]) -> None:
    with pytest.raises(BundleRefused, match="no key that the document names"):
        verify(folder, keys)


def change(folder: Path) -> None:
    (folder / "tiny-1.0-py3-none-any.whl").write_bytes(b"other")


def add(folder: Path) -> None:
    (folder / "tiny-2.0.tar.gz").write_bytes(b"a source, built by running it")


def add_folder(folder: Path) -> None:
    (folder / "more").mkdir()


def remove(folder: Path) -> None:
    (folder / "tiny-1.0-py3-none-any.whl").unlink()


def list_more(folder: Path) -> None:
    add(folder)
    digest = hashlib.sha256((folder / "tiny-2.0.tar.gz").read_bytes()).hexdigest()
    with (folder / SUMS).open("a") as sums:
        sums.write(f"{digest}  tiny-2.0.tar.gz\n")


def unsign(folder: Path) -> None:
    (folder / SIGNATURE).unlink()


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (change, "tiny-1.0-py3-none-any.whl is not what was signed"),
        (add, "tiny-2.0.tar.gz is not in its list"),
        (add_folder, "more is not in its list"),
        (remove, "is in its list, and not there"),
        (list_more, "no key that the document names has signed it"),
        (unsign, "it has no SHA256SUMS.sig"),
    ],
)
def test_what_was_changed_afterwards_is_refused(
    folder: Path, tamper: Callable[[Path], None], words: str
) -> None:
    tamper(folder)
    with pytest.raises(BundleRefused, match=words):
        verify(folder, [public(KEY)])
