"""Large bodies over TLS, in large pieces."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime
from typing import Any

import httpcore
import pytest
from httpcore._backends.sync import SyncStream

from umbel.flower.fast import streams
from umbel.identity import leaves
from umbel.identity.authority import Authority

BODY = bytes(range(256)) * 20_000  # five megabytes


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each read brought, with large pieces."""
    monkeypatch.setattr(SyncStream, "read", SyncStream.read)
    monkeypatch.setattr(SyncStream, "write", SyncStream.write)
    streams.install()
    seen: list[int] = []
    read: Any = SyncStream.read

    def counted(self: Any, max_bytes: int, timeout: float | None = None) -> bytes:
        piece: bytes = read(self, max_bytes, timeout)
        seen.append(len(piece))
        return piece

    monkeypatch.setattr(SyncStream, "read", counted)
    return seen


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """How a server and its client speak TLS."""
    folder, now = tmp_path_factory.mktemp("tls"), datetime.now(UTC)
    authority = Authority.create(folder / "ca", "test", now=now, days=2, secret=None)
    leaf = leaves.ensure(authority, folder, "server", ["127.0.0.1"], now=now, days=1)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(leaf.certificate, leaf.key)
    return server, ssl.create_default_context(cafile=authority.bundle_path)


def serve_once(listener: socket.socket, context: ssl.SSLContext, got: list[bytes]) -> None:
    """Take one request with a body as long as ours, give the same body back, and part."""
    with listener, context.wrap_socket(listener.accept()[0], server_side=True) as peer:
        seen = b""
        while len(seen.partition(b"\r\n\r\n")[2]) < len(BODY):
            seen += peer.recv(1 << 16)
        got.append(seen[-len(BODY) :])
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY)


def test_a_large_body_arrives_whole_both_ways_in_few_pieces(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], pieces: list[int]
) -> None:
    server, client = contexts
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    got: list[bytes] = []
    thread = threading.Thread(target=serve_once, args=(listener, server, got))
    thread.start()

    with httpcore.ConnectionPool(ssl_context=client) as pool:
        answer = pool.request("POST", f"https://127.0.0.1:{port}/", content=BODY)
    thread.join(30)

    assert got == [BODY]
    assert answer.content == BODY
    assert max(pieces) > streams.RECORD_BYTES
    assert max(pieces) <= streams.PIECE_BYTES + streams.RECORD_BYTES
