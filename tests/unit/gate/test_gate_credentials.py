from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from umbel.gate.credentials import Credentials, RosterUnreadable
from umbel.model.role import Role

A, B = "a" * 64, "b" * 64


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


ALICE = {"name": "alice", "role": "admin", "sha256": hashed("alices")}
BOB = {"name": "bob", "role": "viewer", "sha256": hashed("bobs")}


def write(folder: Path, users: Any, sites: Any) -> None:
    """Replace both files, as the identity's roster does."""
    for name, data in (("users.json", users), ("sites.json", sites)):
        beside = folder / f".{name}"
        beside.write_text(data if isinstance(data, str) else json.dumps(data))
        beside.replace(folder / name)


def load(folder: Path) -> Credentials:
    return Credentials(folder / "users.json", folder / "sites.json")


@pytest.fixture
def known(tmp_path: Path) -> Credentials:
    write(tmp_path, [ALICE], {A: {"site": "north"}})
    return load(tmp_path)


def test_a_token_is_found_by_its_hash(known: Credentials) -> None:
    found = known.person("alices")
    assert found is not None
    assert (found.name, found.role) == ("alice", Role.ADMIN)
    assert known.person(hashed("alices")) is None


def test_a_site_that_joins_is_found_without_a_signal(known: Credentials, tmp_path: Path) -> None:
    assert known.site(B) is None
    write(tmp_path, [ALICE], {A: {"site": "north"}, B: {"site": "south"}})
    assert known.site(B) == "south"


def test_a_user_who_is_added_is_found_without_a_signal(known: Credentials, tmp_path: Path) -> None:
    assert known.person("bobs") is None
    write(tmp_path, [ALICE, BOB], {})
    assert known.person("bobs") is not None


def test_who_is_removed_is_gone_after_a_look(known: Credentials, tmp_path: Path) -> None:
    write(tmp_path, [], {})
    assert known.refresh() == []
    assert known.person("alices") is None
    assert known.site(A) is None


@pytest.mark.parametrize("broken", ["", "{", "[1]", '{"x": {"site": "a"}}', f'{{"{A}": 1}}'])
def test_a_broken_file_leaves_what_was_known(
    broken: str, known: Credentials, tmp_path: Path
) -> None:
    write(tmp_path, [ALICE], broken)
    [fault] = known.refresh()
    assert isinstance(fault, RosterUnreadable)
    assert known.site(A) == "north"
    assert not known.sites_known
    write(tmp_path, [ALICE], {})
    assert known.refresh() == []
    assert known.sites_known


def test_a_file_that_vanishes_leaves_what_was_known(known: Credentials, tmp_path: Path) -> None:
    (tmp_path / "sites.json").unlink()
    assert known.site(B) is None
    assert not known.sites_known
    assert known.site(A) == "north"


@pytest.mark.parametrize(
    "users",
    [
        [ALICE | {"role": "king"}],
        [ALICE | {"sha256": "short"}],
        [ALICE | {"sha256": "A" * 64}],
        [ALICE | {"name": "a b"}],
        [{"name": "x"}],
        "not JSON",
    ],
)
def test_a_broken_file_at_the_start_is_an_error(users: Any, tmp_path: Path) -> None:
    write(tmp_path, users, {})
    with pytest.raises(RosterUnreadable, match="U243"):
        load(tmp_path)


def test_a_missing_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RosterUnreadable, match="No such file"):
        load(tmp_path)


def test_no_secret_is_in_the_error(tmp_path: Path) -> None:
    write(tmp_path, [ALICE | {"sha256": "hush"}], {})
    with pytest.raises(RosterUnreadable) as caught:
        load(tmp_path)
    assert "hush" not in str(caught.value)
