"""Joins two networks for one cluster: a process of the machine that holds sockets of both.

* Nodes reach the API server, which listens on loopback, at the switch's address.
* The API server reaches kubelets, pods and services by `CONNECT` on a unix socket; these
  connections start in the cluster's first node, so that kube-proxy's rules hold for them.

A socket stays in the network namespace it was made in, whoever uses it later.

    python -m testbed.pods.relay PORT SWITCH_NAMESPACE NODE_NAMESPACE SOCKET
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from testbed.pods.plan import GATEWAY

CLONE_NEWNET = 0x40000000
NAMESPACES = Path("/run/netns")
CHUNK = 1 << 16
CONNECT_S = 10


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Let this thread be in another network namespace for a moment."""
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12

    def enter(descriptor: int) -> None:
        if libc.setns(descriptor, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(NAMESPACES / namespace, os.O_RDONLY)
        try:
            enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            enter(home)
    finally:
        os.close(home)


def new_socket() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    return made


async def connected(namespace: str, host: str, port: int) -> socket.socket:
    """Connect from inside the namespace."""
    with inside(namespace):
        made = new_socket()
    try:
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(made, (host, port))
    except (OSError, TimeoutError):
        made.close()
        raise
    return made


def asked_for(head: bytes) -> tuple[str, int]:
    """Read whom a CONNECT asks for; anything else is an error."""
    words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split()
    if len(words) < 2 or words[0] != "CONNECT":  # noqa: PLR2004
        message = f"not a CONNECT: {words[:1]}"
        raise ValueError(message)
    host, _, port = words[1].rpartition(":")
    return host.strip("[]"), int(port)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, then say so to the other side."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join(one: Stream, other: Stream) -> None:
    """Copy both directions until both have ended; a broken one ends the other."""
    try:
        await asyncio.gather(pump(one[0], other[1]), pump(other[0], one[1]))
    finally:
        for _, writer in (one, other):
            writer.close()


class Relay:
    def __init__(self, port: int, node: str) -> None:
        self.port = port
        self.node = node

    async def to_api(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a node: hand its connection to the API server on loopback."""
        try:
            api = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.close()
            return
        await join((reader, writer), api)

    async def to_node(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the API server: connect it to where it asks for."""
        try:
            host, port = asked_for(await reader.readuntil(b"\r\n\r\n"))
            far = await asyncio.open_connection(sock=await connected(self.node, host, port))
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError) as error:
            print(f"cannot connect: {error!r}", file=sys.stderr)  # noqa: T201  # its log
            with contextlib.suppress(OSError):
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await join((reader, writer), far)


async def serve(port: int, switch: str, node: str, path: Path) -> None:
    """Listen on both sides until ended."""
    relay = Relay(port, node)
    with inside(switch):
        listening = new_socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((GATEWAY, port))
    old = os.umask(0o177)
    try:
        unix = await asyncio.start_unix_server(relay.to_node, path)
    finally:
        os.umask(old)
    tcp = await asyncio.start_server(relay.to_api, sock=listening)
    async with unix, tcp:
        await asyncio.gather(unix.serve_forever(), tcp.serve_forever())


def main(argv: list[str]) -> None:
    port, switch, node, path = argv
    Path(path).unlink(missing_ok=True)
    asyncio.run(serve(int(port), switch, node, Path(path)))


if __name__ == "__main__":
    main(sys.argv[1:])
