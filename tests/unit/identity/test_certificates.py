from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from umbel.identity import certificates, leaves
from umbel.identity.authority import Authority
from umbel.identity.certificates import Trouble

NAMES = ("localhost", "127.0.0.1")


@pytest.fixture
def leaf(authority: Authority, tmp_path: Path, now: datetime) -> leaves.Leaf:
    return leaves.ensure(authority, tmp_path / "gate", "gate", NAMES, now=now, days=90)


def troubles(
    leaf: leaves.Leaf, ca: Path, now: datetime, names: tuple[str, ...] = NAMES
) -> list[Trouble]:
    found = certificates.check(leaf.certificate, leaf.key, ca, names, now)
    assert all(problem.fact and problem.hint for problem in found)
    return [problem.trouble for problem in found]


def test_a_fresh_certificate_has_no_trouble(
    authority: Authority, leaf: leaves.Leaf, now: datetime
) -> None:
    assert troubles(leaf, authority.bundle_path, now) == []


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        (timedelta(days=90), [Trouble.EXPIRED]),
        (timedelta(days=89, hours=23), []),
        (timedelta(hours=-1), [Trouble.NOT_YET_VALID, Trouble.CA_NOT_YET_VALID]),
        (timedelta(days=3650), [Trouble.EXPIRED, Trouble.CA_EXPIRED]),
    ],
)
def test_time_makes_trouble(
    authority: Authority,
    leaf: leaves.Leaf,
    now: datetime,
    passed: timedelta,
    expected: list[Trouble],
) -> None:
    assert troubles(leaf, authority.bundle_path, now + passed) == expected


def test_another_key_is_noticed(
    authority: Authority, leaf: leaves.Leaf, tmp_path: Path, now: datetime
) -> None:
    other = leaves.ensure(authority, tmp_path / "other", "gate", NAMES, now=now, days=90)
    mixed = leaves.Leaf(other.key, leaf.certificate)
    assert troubles(mixed, authority.bundle_path, now) == [Trouble.KEY_MISMATCH]


def test_another_ca_of_the_same_name_is_noticed(
    leaf: leaves.Leaf, tmp_path: Path, now: datetime
) -> None:
    other = Authority.create(tmp_path / "ca2", "hospitals", now=now, days=9, secret=None)
    assert troubles(leaf, other.bundle_path, now) == [Trouble.WRONG_CA]


def test_the_old_ca_in_the_bundle_is_enough(
    authority: Authority, leaf: leaves.Leaf, now: datetime
) -> None:
    rotated = authority.rotate(now=now, days=9, secret=None)
    assert troubles(leaf, rotated.bundle_path, now) == []
    assert troubles(leaf, rotated.certificate_path, now) == [Trouble.WRONG_CA]


def test_a_missing_name_is_named(authority: Authority, leaf: leaves.Leaf, now: datetime) -> None:
    wanted = ("localhost", "fl.example.org")
    (problem,) = certificates.check(leaf.certificate, leaf.key, authority.bundle_path, wanted, now)
    assert problem.trouble is Trouble.MISSING_NAME
    assert "fl.example.org" in problem.fact
    assert "localhost" not in problem.fact


@pytest.mark.parametrize("which", ["certificate", "key", "ca"])
def test_missing_and_damaged_files_are_values(
    authority: Authority, leaf: leaves.Leaf, now: datetime, which: str
) -> None:
    path = {"certificate": leaf.certificate, "key": leaf.key, "ca": authority.bundle_path}[which]
    path.write_bytes(path.read_bytes()[:60])
    assert troubles(leaf, authority.bundle_path, now) == [Trouble.DAMAGED]
    path.unlink()
    assert troubles(leaf, authority.bundle_path, now) == [Trouble.MISSING]


def test_a_certificate_is_described_for_people(leaf: leaves.Leaf, now: datetime) -> None:
    seen = certificates.describe(leaf.certificate, now)
    assert (seen.name, seen.subject, seen.days_left) == ("gate", "CN=localhost", 90)
    assert datetime.fromisoformat(seen.not_after) == now + timedelta(days=90)
    assert certificates.describe(leaf.certificate, now + timedelta(days=91)).days_left == -1


def test_two_thirds_of_a_life_call_for_renewal(leaf: leaves.Leaf, now: datetime) -> None:
    assert not certificates.needs_renewal(leaf.certificate, now + timedelta(days=59))
    assert certificates.needs_renewal(leaf.certificate, now + timedelta(days=60))


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_what_is_no_certificate_has_a_code(
    tmp_path: Path, now: datetime, content: bytes | None
) -> None:
    path = tmp_path / "x.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(certificates.CertificateUnreadable, match="U412"):
        certificates.describe(path, now)
