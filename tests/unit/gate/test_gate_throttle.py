from __future__ import annotations

import pytest

from umbel.gate.throttle import Throttle, network_of


def test_a_few_failures_are_forgiven() -> None:
    throttle = Throttle(per_minute=3)
    assert [throttle.fail("a", 0.0) for _ in range(5)] == [False, False, False, True, True]


def test_time_forgives() -> None:
    throttle = Throttle(per_minute=3)
    for _ in range(4):
        throttle.fail("a", 0.0)
    assert throttle.fail("a", 19.0)
    assert not throttle.fail("a", 20.5)
    assert throttle.fail("a", 21.0)
    assert [throttle.fail("a", 1000.0) for _ in range(4)] == [False, False, False, True]


def test_peers_are_counted_apart() -> None:
    throttle = Throttle(per_minute=1)
    throttle.fail("a", 0.0)
    assert throttle.fail("a", 0.0)
    assert not throttle.fail("b", 0.0)


def test_many_peers_take_no_memory() -> None:
    throttle = Throttle(per_minute=1)
    for number in range(20_000):
        throttle.fail(str(number), 0.0)
    assert len(throttle._left) <= 4096


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_a_network_is_one_peer(address: str, network: str) -> None:
    assert network_of(address) == network
