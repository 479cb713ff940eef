from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

from umbel.identity import certificates, node_keys
from umbel.identity.authority import Authority
from umbel.identity.provision import LOOPBACK, ensure_sites


def folders(root: Path, count: int) -> dict[str, Path]:
    return {f"site-{i}": root / f"site-{i}" for i in range(count)}


def test_every_site_gets_a_whole_identity(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    wanted = folders(tmp_path / "sites", 70)  # more than are made at once
    made = ensure_sites(authority, wanted, now=now, days=30)
    assert made.keys() == wanted.keys()
    assert len({identity.node.fingerprint for identity in made.values()}) == 70
    for name, folder in wanted.items():
        leaf = made[name].server
        assert node_keys.load(folder) == made[name].node
        ca = authority.bundle_path
        assert certificates.check(leaf.certificate, leaf.key, ca, LOOPBACK, now) == ()


def test_what_is_good_stays_and_what_is_not_is_mended(
    authority: Authority, tmp_path: Path, now: datetime
) -> None:
    wanted = folders(tmp_path, 3)
    first = ensure_sites(authority, wanted, now=now, days=30)
    first["site-1"].server.certificate.unlink()
    later = now + timedelta(days=1)
    second = ensure_sites(authority, wanted | folders(tmp_path, 4), now=later, days=30)
    assert [name for name, site in second.items() if site.server.issued] == ["site-1", "site-3"]
    assert all(second[name].node == first[name].node for name in first)


def test_two_at_once_agree(authority: Authority, tmp_path: Path, now: datetime) -> None:
    wanted = folders(tmp_path, 10)
    backwards = dict(reversed(wanted.items()))

    def ensure(order: dict[str, Path]) -> dict[str, str]:
        made = ensure_sites(authority, order, now=now, days=30)
        return {name: site.node.fingerprint for name, site in made.items()}

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ensure, (wanted, backwards))
    assert first == second
