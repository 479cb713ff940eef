"""A real gate process between a raw TLS client and a small upstream that does as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from umbel.sockets import reachable

TOKENS = {role: f"{role}-token-{'x' * 40}" for role in ("viewer", "operator", "admin")}


def write_certificate(folder: Path, name: str = "server") -> None:
    """Make a self-signed certificate for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


class Site:
    """A site that signs as a SuperNode does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = self._key.public_key()
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        self._pem = public.public_bytes(serialization.Encoding.PEM, spki)
        der = public.public_bytes(serialization.Encoding.DER, spki)
        self.fingerprint = hashlib.sha256(der).hexdigest()

    def headers(self, *, at: datetime | None = None) -> dict[str, str]:
        """Sign a time, now unless told otherwise."""
        timestamp = (at or datetime.now(UTC)).isoformat()
        signature = self._key.sign(timestamp.encode(), ec.ECDSA(hashes.SHA256()))
        return {
            "flwr-public-key": b64encode(self._pem).decode(),
            "flwr-timestamp": timestamp,
            "flwr-signature": b64encode(signature).decode(),
        }


@dataclass
class Answer:
    """What came back, and all of it as it came."""

    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes


class Client:
    """A connection to a door. Sends what it is told, byte for byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send some bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """Read one answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        headers = {k.decode(): v.decode() for k, _, v in (line.partition(b": ") for line in lines)}
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
            return Answer(int(first.split()[1]), headers, body, head + body)
        pieces = [piece async for piece in self.chunks()]
        return Answer(int(first.split()[1]), headers, b"".join(pieces), head)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Read a chunked body, chunk by chunk."""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)

    async def rest(self) -> bytes:
        """Read until the gate closes."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""

    def certificate_name(self) -> str:
        """The common name in the server's certificate."""
        found = self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        subject = x509.load_der_x509_certificate(found).subject
        return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


@dataclass
class Asked:
    """A request as the upstream got it."""

    path: str
    headers: dict[str, str]
    length: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def body(self) -> bytes:
        """Read the whole body."""
        return await self.reader.readexactly(self.length)

    async def say(self, data: bytes) -> None:
        """Answer some raw bytes."""
        self.writer.write(data)
        await self.writer.drain()


Handler = Callable[[Asked], Awaitable[None]]


async def echo(asked: Asked) -> None:
    """Answer with the request's body."""
    body = await asked.body()
    head = f"HTTP/1.1 200 OK\r\nserver: secret-name\r\ncontent-length: {len(body)}\r\n\r\n"
    await asked.say(head.encode() + body)


class Upstream:
    """Stands in for the SuperLink on its Unix socket."""

    def __init__(self) -> None:
        self.handler: Handler = echo
        self.seen: list[Asked] = []
        self.connections = 0
        self.gone = asyncio.Event()  # some connection was closed from the other side
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, path: Path) -> None:
        """Listen."""
        with reachable(path) as name:
            self._server = await asyncio.start_unix_server(self._spawn, name)

    async def hang_up(self) -> None:
        """Close every connection, and go on listening."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        await self.hang_up()

    def _spawn(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head[:-4].decode().split("\r\n")
                headers = {k: v for k, _, v in (line.partition(": ") for line in lines)}
                length = int(headers["content-length"])
                asked = Asked(first.split()[1], headers, length, reader, writer)
                self.seen.append(asked)
                await self.handler(asked)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@dataclass
class Gate:
    """A running gate."""

    folder: Path
    process: subprocess.Popen[bytes]
    ports: dict[str, int]
    clients: list[Client] = field(default_factory=list)

    task = {"flwr-task-token": "ab" * 128}  # noqa: RUF012
    strangers_answer = (
        b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: 32\r\n"
        b'connection: close\r\n\r\n{"code":401,"message":"refused"}'
    )

    @staticmethod
    def user(role: str) -> dict[str, str]:
        """The header of a user with this role."""
        return {"authorization": f"Bearer {TOKENS[role]}"}

    @staticmethod
    def request(path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
        """Write a request as an ordinary client would."""
        lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    async def connect(self, door: str) -> Client:
        """Shake hands with a door."""
        context = ssl.create_default_context(cafile=str(self.folder / "server.crt"))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.ports[door], ssl=context, server_hostname="localhost", limit=1 << 20
        )
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    async def ask(
        self, door: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """Ask once, on a connection of its own."""
        return await self.say(door, self.request(path, body, headers))

    async def say(self, door: str, data: bytes) -> Answer:
        """Send these bytes on a connection of their own."""
        client = await self.connect(door)
        try:
            await client.send(data)
            return await client.answer()
        finally:
            client.writer.transport.abort()

    async def reload(self) -> None:
        """Send SIGHUP, and wait until it is heeded."""
        self.process.send_signal(signal.SIGHUP)
        assert self.process.stdout is not None
        assert await asyncio.to_thread(self.process.stdout.readline) == b"reloaded\n"

    def audit(self) -> list[dict[str, Any]]:
        """Read the audit log."""
        text = (self.folder / "audit.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def memory(self) -> int:
        """Resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def open_files(self) -> int:
        """How many descriptors it holds."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def hang_up(self) -> None:
        """Close what the test left open."""
        for client in self.clients:
            client.writer.transport.abort()
        self.clients.clear()

    def stop(self) -> int:
        """End it in order; give the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=10)
        return self.process.returncode


def write_rosters(folder: Path, *sites: Site) -> None:
    """Write who is known."""
    users = [
        {"name": f"the-{role}", "role": role, "sha256": hashlib.sha256(token.encode()).hexdigest()}
        for role, token in TOKENS.items()
    ]
    (folder / "users.json").write_text(json.dumps(users))
    (folder / "sites.json").write_text(json.dumps({s.fingerprint: {"site": s.name} for s in sites}))


def write_config(folder: Path, audit: str = "audit.jsonl", **limits: float) -> Path:
    """Write a configuration with three doors on free ports."""
    path = folder / "gate.json"
    doors = [{"api": a, "host": "127.0.0.1", "port": 0} for a in ("fleet", "control", "runtime")]
    files = {"users": "users.json", "sites": "sites.json", "audit": audit}
    config: dict[str, Any] = {
        "doors": doors,
        "tls": {"certificate": str(folder / "server.crt"), "key": str(folder / "server.key")},
        "upstream": str(folder / "superlink.sock"),
        "limits": {"failuresPerMinute": 1_000_000, "headerSeconds": 60, **limits},
        **{key: str(folder / name) for key, name in files.items()},
    }
    path.write_text(json.dumps(config))
    return path


def launch(folder: Path, config: Path) -> Gate:
    """Start a gate and wait until it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "umbel.gate", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
    )
    assert process.stdout is not None
    lines = [process.stdout.readline().split() for _ in range(3)]
    return Gate(folder, process, {line[0].decode(): int(line[2]) for line in lines})


@pytest.fixture(scope="session")
def north() -> Site:
    return Site("north")


@pytest.fixture(scope="session")
def shared_folder(north: Site) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_certificate(folder)
        write_rosters(folder, north)
        yield folder


@pytest.fixture(scope="session")
def shared_gate(shared_folder: Path) -> Iterator[Gate]:
    gate = launch(shared_folder, write_config(shared_folder))
    yield gate
    assert gate.stop() == 0


@pytest.fixture
async def gate(shared_gate: Gate) -> AsyncIterator[Gate]:
    """One gate for all tests that leave it as it was."""
    yield shared_gate
    shared_gate.hang_up()


@pytest.fixture
async def upstream(shared_gate: Gate) -> AsyncIterator[Upstream]:
    """The upstream of the shared gate."""
    double = Upstream()
    path = shared_gate.folder / "superlink.sock"
    path.unlink(missing_ok=True)
    await double.start(path)
    yield double
    await double.stop()


@pytest.fixture
def new_site() -> Callable[[str], Site]:
    """Make a site that nobody knows."""
    return Site


Own = Callable[..., Awaitable[tuple[Gate, Upstream]]]


@pytest.fixture
async def own(tmp_path: Path, north: Site) -> AsyncIterator[Own]:
    """Start a gate of the test's own, with limits of its own."""
    started: list[tuple[Gate, Upstream]] = []

    async def start(folder: Path = tmp_path, **settings: Any) -> tuple[Gate, Upstream]:
        write_certificate(folder)
        write_rosters(folder, north)
        double = Upstream()
        await double.start(folder / "superlink.sock")
        gate = await asyncio.to_thread(launch, folder, write_config(folder, **settings))
        started.append((gate, double))
        return gate, double

    yield start
    for gate, double in started:
        gate.hang_up()
        await asyncio.to_thread(gate.stop)
        await double.stop()


@pytest.fixture
def prepared(tmp_path: Path, north: Site) -> Path:
    """A configuration with all that it names, and no gate yet."""
    write_certificate(tmp_path)
    write_rosters(tmp_path, north)
    return write_config(tmp_path)


@pytest.fixture
def renew() -> Callable[[Path, str], None]:
    """Replace the certificate in a gate's folder."""
    return write_certificate


@pytest.fixture
def enrol() -> Callable[..., None]:
    """Replace the lists of users and sites in a gate's folder."""
    return write_rosters
