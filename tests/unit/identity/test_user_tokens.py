from __future__ import annotations

import hashlib
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from umbel.identity import tokens
from umbel.identity.names import NotAName
from umbel.model.federation import Role, User

ALICE = User(name="alice", role=Role.ADMIN)
BOB = User(name="bob")


def test_a_token_has_256_bits_and_a_mark(tmp_path: Path) -> None:
    path = tokens.issue(tmp_path / "tokens", "alice")
    token = tokens.load(path)
    assert token.startswith("umbel_")
    assert len(token) == len("umbel_") + 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_digest_is_sha256_of_what_is_shown(tmp_path: Path) -> None:
    token = tokens.load(tokens.issue(tmp_path, "alice"))
    assert tokens.digest(token) == hashlib.sha256(token.encode()).hexdigest()


def test_ensuring_keeps_and_issuing_replaces(tmp_path: Path) -> None:
    first = tokens.load(tokens.ensure(tmp_path, "alice"))
    assert tokens.load(tokens.ensure(tmp_path, "alice")) == first
    assert tokens.load(tokens.issue(tmp_path, "alice")) != first


def test_revoking_twice_is_revoking_once(tmp_path: Path) -> None:
    path = tokens.issue(tmp_path, "alice")
    assert tokens.revoke(tmp_path, "alice")
    assert not path.exists()
    assert not tokens.revoke(tmp_path, "alice")


def test_who_left_is_pruned(tmp_path: Path) -> None:
    for name in ("alice", "bob", "carol"):
        tokens.issue(tmp_path, name)
    assert tokens.prune(tmp_path, {"alice"}) == ("bob", "carol")
    assert tokens.prune(tmp_path, {"alice"}) == ()
    assert tokens.path_of(tmp_path, "alice").exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "../a", "A", "a\n", "-a", "a" * 64])
def test_a_name_that_is_none_gets_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotAName, match="U418"):
        tokens.issue(tmp_path, name)


@pytest.mark.parametrize("content", [b"", b"umbel_short\n", b"\xff" * 49, b"umbel_" + b"a" * 44])
def test_what_is_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tokens.issue(tmp_path, "alice")
    path.write_bytes(content)
    with pytest.raises(tokens.TokenDamaged, match="U416"):
        tokens.load(path)


def test_the_gate_learns_digests_and_never_tokens(tmp_path: Path) -> None:
    path = tmp_path / "gate" / "users.json"
    assert tokens.write_users(path, [ALICE, BOB], tmp_path / "tokens")
    alice, bob = (tokens.load(tokens.path_of(tmp_path / "tokens", n)) for n in ("alice", "bob"))
    assert json.loads(path.read_bytes()) == [
        {"name": "alice", "role": "admin", "sha256": tokens.digest(alice)},
        {"name": "bob", "role": "viewer", "sha256": tokens.digest(bob)},
    ]
    assert alice not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_writing_the_same_users_again_changes_nothing(tmp_path: Path) -> None:
    path, folder = tmp_path / "users.json", tmp_path / "tokens"
    assert tokens.write_users(path, [ALICE], folder)
    seen = path.stat()
    assert not tokens.write_users(path, [ALICE], folder)
    assert path.stat().st_mtime_ns == seen.st_mtime_ns
    assert tokens.write_users(path, [], folder)
    assert json.loads(path.read_bytes()) == []


def test_a_user_with_two_roles_is_refused(tmp_path: Path) -> None:
    twice = [ALICE, User(name="alice")]
    with pytest.raises(tokens.UserTwice, match="alice"):
        tokens.write_users(tmp_path / "users.json", twice, tmp_path / "tokens")


def test_a_secret_is_random_bytes_and_stays(tmp_path: Path) -> None:
    path = tokens.ensure_secret(tmp_path / "hub" / "superexec")
    content = path.read_bytes()
    assert len(content) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tokens.ensure_secret(path).read_bytes() == content


def test_an_empty_secret_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "superexec"
    path.touch()
    assert len(tokens.ensure_secret(path).read_bytes()) == 32


def test_many_at_once_get_one_secret_and_one_token(tmp_path: Path) -> None:
    start = Barrier(8)

    def ensure(_: int) -> tuple[bytes, str]:
        start.wait()
        secret = tokens.ensure_secret(tmp_path / "superexec").read_bytes()
        return secret, tokens.load(tokens.ensure(tmp_path / "tokens", "alice"))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ensure, range(8)))) == 1
