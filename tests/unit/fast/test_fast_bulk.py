from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from flwr.proto import message_pb2, node_pb2
from hypothesis import given
from hypothesis import strategies as st

from umbel.flower.fast import bulk

DecodeError: Any = import_module("google.protobuf.message").DecodeError
LARGE = bytes(range(256)) * (bulk.LARGE_BYTES // 256 + 1)


def pushed(content: bytes) -> Any:
    return message_pb2.PushObjectRequest(
        node=node_pb2.Node(node_id=2**63 + 5), run_id=2**64 - 1, object_id="ab" * 32,
        object_content=content, session_id="a session",
    )  # fmt: skip


@given(st.binary(max_size=300), st.booleans())
def test_a_message_is_read_as_protobuf_reads_it(end: bytes, large: bool) -> None:
    message = pushed(LARGE + end if large else end)
    read = bulk.parsed(type(message), message.SerializeToString())
    for name in ("run_id", "object_id", "object_content", "session_id"):
        assert getattr(read, name) == getattr(message, name)
    assert read.node.node_id == message.node.node_id


@given(st.binary(max_size=300))
def test_a_bulky_message_is_written_so_that_protobuf_reads_it(end: bytes) -> None:
    make = bulk.makes(message_pb2.PullObjectResponse)
    made = make(object_found=True, object_available=True, object_content=LARGE + end)
    read: Any = message_pb2.PullObjectResponse.FromString(made.SerializeToString())
    assert (read.object_found, read.object_available) == (True, True)
    assert read.object_content == LARGE + end


def test_a_small_message_is_protobufs_own() -> None:
    make = bulk.makes(message_pb2.PullObjectResponse)
    assert isinstance(make(object_found=True, object_content=b"x"), message_pb2.PullObjectResponse)
    assert isinstance(make(object_found=False), message_pb2.PullObjectResponse)


@pytest.mark.parametrize("cut", [1, 5, 1000])
def test_what_is_cut_off_is_refused_as_protobuf_refuses_it(cut: int) -> None:
    with pytest.raises(DecodeError):
        bulk.parsed(message_pb2.PushObjectRequest, pushed(LARGE).SerializeToString()[:-cut])


def test_a_field_that_is_there_twice_is_left_to_protobuf() -> None:
    twice = pushed(LARGE).SerializeToString() + pushed(b"last").SerializeToString()
    assert bulk.parsed(message_pb2.PushObjectRequest, twice).object_content == b"last"


@given(st.binary(max_size=60))
def test_noise_is_refused_or_read_as_protobuf_does(some: bytes) -> None:
    kind: Any = message_pb2.PushObjectRequest
    noise = some + LARGE
    try:
        expected = kind.FromString(noise)
    except DecodeError:
        with pytest.raises(DecodeError):
            bulk.parsed(kind, noise)
        return
    assert bulk.parsed(kind, noise).object_content == expected.object_content
