from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umbel.placement import quantity
from umbel.placement.semver import Version


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("4", 4),
        ("+4", 4),
        ("-1.5", Fraction(-3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("3900m", Fraction(39, 10)),
        ("100n", Fraction(1, 10**7)),
        ("1k", 1000),
        ("1E", 10**18),
        ("1E2", 100),
        ("1e-3", Fraction(1, 1000)),
        ("1Ki", 1024),
        ("1.5Gi", 3 << 29),
    ],
)
def test_quantities_are_read_exactly(text: str, value: Fraction) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "m", "1K", "1ki", "1 Gi", "1Gi ", "1e999", "e3", "1,3", "0x1", "٣", "9" * 200]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity.parse(text)


def test_the_approximation_is_the_one_of_kubernetes() -> None:
    assert quantity.approximate("3900m") == 3900 * 1e-3
    assert quantity.approximate("16367976Ki") == 16367976 * 1024.0


@settings(deadline=None, database=None)
@given(st.integers(0, 10**12))
def test_thousandths_are_written_and_read_back(thousandths: int) -> None:
    number = Fraction(thousandths, 1000)
    assert quantity.parse(quantity.write(float(number))) == number


@settings(deadline=None, database=None)
@given(st.integers(0, 1 << 62))
def test_bytes_are_written_and_read_back(number: int) -> None:
    assert quantity.parse(quantity.write_bytes(number)) == number


def test_canonical_forms() -> None:
    assert [quantity.write(n) for n in (4, 3.9, 0.0000001, 0)] == ["4", "3900m", "100n", "0"]
    assert [quantity.write_bytes(n) for n in (0, 1000, 1024, 3 << 29)] == [
        "0",
        "1000",
        "1Ki",
        "1536Mi",
    ]


def test_versions_come_in_the_order_of_the_specification() -> None:
    texts = (
        *("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"),
        *("1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0"),
    )
    versions = [Version.parse(text) for text in texts]
    assert all(one < other for one, other in pairwise(versions))
    assert Version.parse("1.0.0+a") == Version.parse("1.0.0+b")


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.x"]
)
def test_half_versions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a semantic version"):
        Version.parse(text)
