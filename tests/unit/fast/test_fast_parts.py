from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umbel.flower.fast import parts

PAIRS = st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=64)), max_size=8)


@given(PAIRS)
def test_what_was_packed_is_unpacked(pairs: list[tuple[int, bytes]]) -> None:
    assert parts.unpack(parts.pack(pairs)) == pairs


@given(PAIRS.filter(bool), st.data())
def test_a_cut_batch_is_malformed_or_ends_between_parts(
    pairs: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    whole = parts.pack(pairs)
    ends = [len(parts.pack(pairs[:n])) for n in range(len(pairs))]
    cut = data.draw(st.integers(0, len(whole) - 1))
    if cut in ends:
        assert parts.unpack(whole[:cut]) == pairs[: ends.index(cut)]
    else:
        with pytest.raises(parts.Malformed):
            parts.unpack(whole[:cut])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_malformed(body: bytes) -> None:
    try:
        pairs = parts.unpack(body)
    except parts.Malformed:
        return
    assert parts.pack(pairs) == body


def test_a_part_that_promises_more_than_there_is_is_malformed() -> None:
    with pytest.raises(parts.Malformed):
        parts.unpack(b"\x00\x00\xff\xff\xff\xffabc")


def test_routes_keep_their_numbers_and_their_api() -> None:
    assert parts.route_path(parts.FLEET, 0) == "/v1/fleet/push-object"
    assert parts.route_path(parts.RUNTIME, 1) == "/v1/runtime/pull-object"


@pytest.mark.parametrize("number", [2, 65535])
def test_a_route_that_is_none_is_malformed(number: int) -> None:
    with pytest.raises(parts.Malformed):
        parts.route_path(parts.FLEET, number)
