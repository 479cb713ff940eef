"""A SuperLink in a process of its own, and clients that speak to it byte by byte and may leave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import message_to_proto
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from tests.integration.federation.conftest import until

from umbel.flower.commands import Tls, quiet, superlink_argv

TTL_S = 1000.0
_SERVE = """
import json, sys
from pathlib import Path
from umbel.flower import launch
argv, listen, wake = json.loads(sys.argv[1])
launch.superlink(argv, Path(listen), Path(wake))
"""


@contextlib.contextmanager
def superlink(folder: Path) -> Iterator[Path]:
    """Run our SuperLink on the database in the folder; gives the socket it listens on."""
    socket, secret = folder / "superlink.sock", folder / "exec.secret"
    secret.write_bytes(os.urandom(32))
    tls = Tls(folder / "server.crt", folder / "server.crt", folder / "server.key")
    argv = superlink_argv(tls=tls, database=folder / "state.db", superexec_secret=secret)
    order = json.dumps([argv, str(socket), str(folder / "wake")])
    with (folder / "superlink.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, order],
            env={**os.environ, **quiet(folder / "flower")},
            stdout=log,
            stderr=log,
        )
    try:
        until(socket.exists, "the SuperLink listens")
        yield socket
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Door:
    """Where a client connects: a Unix socket, or a port with TLS."""

    socket: Path | None = None
    port: int = 0
    ca: Path | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        if self.socket is not None:
            return await asyncio.open_unix_connection(str(self.socket), limit=1 << 20)
        context = ssl.create_default_context(cafile=str(self.ca))
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname="localhost", limit=1 << 20
        )


class Line:
    """A client with one connection, which it may cut."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Ask, and give the body of the answer, which must be a good one."""
        reader, _ = await self._send(path, body, headers)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        fields = dict(line.split(": ", 1) for line in head.strip().split("\r\n")[1:])
        answer = await reader.readexactly(int(fields["content-length"]))
        assert head.startswith("http/1.1 200"), (path, head, answer)
        return answer

    async def cut(self, path: str, body: bytes, headers: Mapping[str, str], after_s: float) -> None:
        """Ask, and leave without looking at what comes."""
        reader, writer = await self._send(path, body, headers)
        asyncio.get_running_loop().call_later(after_s, writer.transport.abort)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        self._open = None

    def hang_up(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open[1].transport.abort()

    async def _send(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._open is None:
            self._open = await self._door.connect()
        reader, writer = self._open
        lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        await writer.drain()
        return reader, writer


@dataclass(frozen=True)
class Parcel:
    """A message as it goes over the wire: itself without content, its tree, its objects."""

    message_id: str
    proto: Any
    tree: Any
    objects: dict[str, bytes]


def parcel(run_id: int, node_id: int, text: str, reply_to: str = "") -> Parcel:
    """Make a message to a node, or its reply."""
    metadata = Metadata(
        run_id=run_id, message_id="", reply_to_message_id=reply_to, group_id="1",
        src_node_id=node_id if reply_to else SUPERLINK_NODE_ID,
        dst_node_id=SUPERLINK_NODE_ID if reply_to else node_id,
        created_at=now().timestamp(), ttl=TTL_S / 2 if reply_to else TTL_S, message_type="train",
    )  # fmt: skip
    message = make_message(metadata, RecordDict({"content": ConfigRecord({"text": text})}))
    message.metadata.__dict__["_message_id"] = message.object_id
    objects = {name: each.deflate() for name, each in get_all_nested_objects(message).items()}
    bare = message_to_proto(remove_content_from_message(message))
    return Parcel(message.object_id, bare, get_object_tree(message), objects)
