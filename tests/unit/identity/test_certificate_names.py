from __future__ import annotations

from ipaddress import ip_address

import pytest
from cryptography import x509

from umbel.identity.names import BadName, alternative, alternatives


@pytest.mark.parametrize(
    ("name", "read_as"),
    [
        ("localhost", "localhost"),
        ("FL.Example.ORG", "fl.example.org"),
        ("fl.example.org.", "fl.example.org"),
        ("super_link", "super_link"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("1.example.org", "1.example.org"),
        ("10-0-0-1", "10-0-0-1"),
        ("dead.beef", "dead.beef"),
    ],
)
def test_a_dns_name_is_read_as_one(name: str, read_as: str) -> None:
    assert alternative(name) == x509.DNSName(read_as)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
    ],
)
def test_an_address_is_read_as_one(name: str, address: str) -> None:
    assert alternative(name) == x509.IPAddress(ip_address(address))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "a..b",
        "-a.org",
        "a-.org",
        "*.example.org",
        "a b",
        "a\n",
        "a/b",
        "user@host",
        "host:9092",
        "https://host",
        "bücher.example",
        "127.1",
        "1.2.3",
        "256.0.0.1",
        "010.0.0.1",
        "0x7f000001",
        "2130706433",
        "0.0.0.0",  # noqa: S104  # a name to refuse
        "::",
        "224.0.0.1",
        "fe80::1%eth0",
        "[localhost]",
        "a" * 64,
        ".".join(["a" * 50] * 6),
    ],
)
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(BadName, match="U400"):
        alternative(name)


def test_each_name_stands_once_and_the_first_stays_first() -> None:
    found = alternatives(["b.org", "a.org", "B.org", "[::1]", "::1"])
    assert [str(name.value) for name in found] == ["b.org", "a.org", "::1"]


def test_no_name_at_all_is_refused() -> None:
    with pytest.raises(BadName):
        alternatives([])
