from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest

from umbel.identity import certificates, leaves
from umbel.identity.authority import Authority, AuthorityExpired
from umbel.identity.names import NotAName

NAMES = ("localhost", "127.0.0.1")


def ensured(
    authority: Authority, tmp_path: Path, now: datetime, names: tuple[str, ...] = NAMES
) -> leaves.Leaf:
    return leaves.ensure(authority, tmp_path / "gate", "gate", names, now=now, days=90)


def test_a_server_makes_its_own_key_and_asks(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    path, csr = leaves.make_request(tmp_path / "gate", "gate")
    again, _ = leaves.make_request(tmp_path / "gate", "gate")
    certificate = path.with_suffix(".crt")
    certificate.write_bytes(authority.issue(csr, NAMES, now=now, days=9))
    assert again == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert certificates.check(certificate, path, authority.bundle_path, NAMES, now) == ()


def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAName):
        leaves.make_request(tmp_path, "../gate")


def test_a_good_certificate_stays(authority: Authority, tmp_path: Path, now: datetime) -> None:
    first = ensured(authority, tmp_path, now)
    content = first.certificate.read_bytes()
    later = ensured(authority, tmp_path, now + timedelta(days=30))
    assert first.issued == ("there was no key",)
    assert later.issued == ()
    assert later.certificate.read_bytes() == content


@pytest.mark.parametrize("days", [60, 90, 400])
def test_an_old_or_expired_certificate_is_renewed_for_the_same_key(
    authority: Authority, tmp_path: Path, now: datetime, days: int
) -> None:
    first = ensured(authority, tmp_path, now)
    key = first.key.read_bytes()
    later = now + timedelta(days=days)
    renewed = ensured(authority, tmp_path, later)
    assert renewed.issued
    assert renewed.key.read_bytes() == key
    assert certificates.describe(renewed.certificate, later).days_left == 90


def test_a_new_name_brings_a_new_certificate(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    ensured(authority, tmp_path, now)
    renewed = ensured(authority, tmp_path, now, (*NAMES, "fl.example.org"))
    assert renewed.issued == ("the certificate does not name fl.example.org",)


def test_after_a_rotation_everything_is_issued_anew(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    ensured(authority, tmp_path, now)
    rotated = authority.rotate(now=now, days=900, secret=None)
    renewed = ensured(rotated, tmp_path, now)
    assert certificates.is_issued_by(certificates.load(renewed.certificate), rotated.certificate)


@pytest.mark.parametrize("content", [b"", b"spoiled"])
@pytest.mark.parametrize("suffix", [".key", ".crt"])
def test_damage_heals(
    authority: Authority, tmp_path: Path, now: datetime, suffix: str, content: bytes
) -> None:
    leaf = ensured(authority, tmp_path, now)
    leaf.key.with_suffix(suffix).write_bytes(content)
    assert ensured(authority, tmp_path, now).issued
    assert certificates.check(leaf.certificate, leaf.key, authority.bundle_path, NAMES, now) == ()


def test_a_clock_that_was_set_back_heals(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    ensured(authority, tmp_path, now + timedelta(days=5))
    assert ensured(authority, tmp_path, now).issued


def test_near_the_cas_end_nothing_is_renewed_in_vain(tmp_path: Path, now: datetime) -> None:
    short = Authority.create(tmp_path / "ca", "f", now=now, days=30, secret=None)
    ensured(short, tmp_path, now)
    assert ensured(short, tmp_path, now + timedelta(days=29)).issued == ()
    with pytest.raises(AuthorityExpired):
        ensured(short, tmp_path, now + timedelta(days=30))


def test_many_at_once_leave_a_key_and_a_certificate_that_fit(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    start = Barrier(6)

    def ensure(_: int) -> leaves.Leaf:
        start.wait()
        return ensured(authority, tmp_path, now)

    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(ensure, range(6)))
    assert sum(bool(leaf.issued) for leaf in made) == 1
    leaf = made[0]
    assert certificates.check(leaf.certificate, leaf.key, authority.bundle_path, NAMES, now) == ()
