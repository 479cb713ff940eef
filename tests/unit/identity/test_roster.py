from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from umbel.identity import roster
from umbel.identity.roster import Roster

A, B, C = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def sites(tmp_path: Path) -> Roster:
    return Roster(tmp_path / "gate" / "sites.json")


def test_the_gate_finds_a_site_by_its_fingerprint(sites: Roster) -> None:
    assert sites.add("berlin", A)
    assert json.loads(sites.path.read_bytes()) == {A: {"site": "berlin"}}
    assert stat.S_IMODE(sites.path.stat().st_mode) == 0o600


def test_adding_twice_is_adding_once(sites: Roster) -> None:
    sites.add("berlin", A)
    seen = sites.path.stat()
    assert not sites.add("berlin", A)
    assert sites.path.stat().st_mtime_ns == seen.st_mtime_ns


def test_a_name_keeps_its_key(sites: Roster) -> None:
    sites.add("berlin", A)
    with pytest.raises(roster.SiteBound, match="berlin"):
        sites.add("berlin", B)
    assert sites.sites() == {"berlin": A}


def test_a_key_keeps_its_name(sites: Roster) -> None:
    sites.add("berlin", A)
    with pytest.raises(roster.KeyBound, match="paris"):
        sites.add("paris", A)
    assert sites.sites() == {"berlin": A}


def test_after_a_revocation_the_name_takes_a_new_key(sites: Roster) -> None:
    sites.add("berlin", A)
    assert sites.remove("berlin")
    assert sites.add("berlin", B)
    assert sites.sites() == {"berlin": B}


def test_removing_twice_is_removing_once(sites: Roster) -> None:
    assert not sites.remove("berlin")
    sites.add("berlin", A)
    assert sites.remove("berlin")
    assert not sites.remove("berlin")
    assert sites.sites() == {}


def test_all_are_bound_or_none(sites: Roster) -> None:
    sites.add("berlin", A)
    with pytest.raises(roster.SiteBound):
        sites.add_all({"paris": B, "berlin": C})
    with pytest.raises(roster.KeyBound):
        sites.add_all({"paris": B, "rome": B})
    assert sites.sites() == {"berlin": A}


@pytest.mark.parametrize("bad", ["", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_a_fingerprint_is_64_hex_digits(sites: Roster, bad: str) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        sites.add("berlin", bad)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        json.dumps({A: {}}).encode(),
        json.dumps({A: {"site": 1}}).encode(),
        json.dumps({"short": {"site": "berlin"}}).encode(),
        json.dumps({A: {"site": "berlin"}, B: {"site": "berlin"}}).encode(),
    ],
)
def test_a_damaged_list_is_not_an_empty_one(sites: Roster, content: bytes) -> None:
    sites.add("berlin", A)
    sites.path.write_bytes(content)
    for act in (sites.sites, lambda: sites.add("paris", B), lambda: sites.remove("berlin")):
        with pytest.raises(roster.RosterDamaged, match="U415"):
            act()
    assert sites.path.read_bytes() == content


def test_what_a_newer_version_wrote_is_understood(sites: Roster) -> None:
    sites.path.parent.mkdir()
    sites.path.write_text(json.dumps({A: {"site": "berlin", "since": "2026"}}))
    assert sites.sites() == {"berlin": A}


def test_many_writers_lose_nobody(sites: Roster) -> None:
    wanted = {f"site-{i}": f"{i:064x}" for i in range(24)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(sites.add, wanted, wanted.values()))
    assert sites.sites() == wanted
