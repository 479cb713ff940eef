"""The two doors that `bench/gate.py` compares, who asks at them, and what stands behind."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

MIB = 1 << 20
LONGEST = 200_000_000  # body
TOKEN = "bench-" + "x" * 40
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


class Site:
    """Signs as a SuperNode does, with a key as Umbel makes them."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = self._key.public_key()
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        self._pem = b64encode(public.public_bytes(serialization.Encoding.PEM, spki)).decode()
        der = public.public_bytes(serialization.Encoding.DER, spki)
        self.fingerprint = hashlib.sha256(der).hexdigest()

    def headers(self) -> dict[str, str]:
        """Sign the time."""
        at = datetime.now(UTC).isoformat()
        signature = self._key.sign(at.encode(), ec.ECDSA(hashes.SHA256()))
        return {
            "flwr-public-key": self._pem,
            "flwr-timestamp": at,
            "flwr-signature": b64encode(signature).decode(),
        }


def request(path: str, headers: dict[str, str], length: int = 0) -> bytes:
    """Write a request's head."""
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Client:
    """A connection, blocking and bare, so that it costs as little as it can."""

    def __init__(self, raw: socket.socket) -> None:
        self._sock = raw
        self._room = memoryview(bytearray(MIB))

    def send(self, data: bytes) -> None:
        """Send some bytes."""
        self._sock.sendall(data)

    def answer(self) -> int:
        """Read one answer; gives the length of its body, of which nothing is kept."""
        got = self._sock.recv_into(self._room)
        head, end, _ = bytes(self._room[:4096]).partition(b"\r\n\r\n")
        if not got or not end or b" 200 " not in head[:20]:
            raise SystemExit(f"unexpected answer: {head[:80]!r}")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        left = length + len(head) + 4 - got
        while left:
            left -= self._sock.recv_into(self._room)
        return length

    def close(self) -> None:
        """Hang up."""
        self._sock.close()


@dataclass(frozen=True)
class Proxy:
    """One of the two, running."""

    name: str
    process: subprocess.Popen[bytes]
    fleet: int
    control: int
    certificate: Path

    def connect(self, port: int | None = None) -> Client:
        """Shake hands."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        raw = socket.create_connection(("127.0.0.1", port or self.fleet))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Client(context.wrap_socket(raw, server_hostname="localhost"))

    def pids(self) -> list[int]:
        """The process and its children."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [pid, *map(int, children.split())]

    def pss_mib(self) -> float:
        """Memory now, shared pages counted once."""
        texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in self.pids()]
        return sum(int(text.split("\nPss:")[1].split()[0]) for text in texts) / 1024

    def peak_mib(self) -> float:
        """Most memory since `forget_peak`; pages that processes share are counted in each."""
        texts = [Path(f"/proc/{pid}/status").read_text() for pid in self.pids()]
        return sum(int(text.split("VmHWM:")[1].split()[0]) for text in texts) / 1024

    def cpu_s(self) -> float:
        """Processor time so far."""
        texts = [Path(f"/proc/{pid}/schedstat").read_text() for pid in self.pids()]
        return sum(int(text.split()[0]) for text in texts) / 1e9

    def forget_peak(self) -> None:
        """Begin anew."""
        for pid in self.pids():
            Path(f"/proc/{pid}/clear_refs").write_text("5")


# The three processes


def write_certificate(folder: Path) -> None:
    """Make a self-signed certificate for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "server.crt").write_bytes(certificate.public_bytes(pem))
    form, unlocked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "server.key").write_bytes(key.private_bytes(pem, form, unlocked))


@contextlib.contextmanager
def process(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run it for as long as the block lasts."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as started:
        try:
            yield started
        finally:
            started.terminate()
            started.wait(30)


@contextlib.contextmanager
def gate(folder: Path, sites: Sequence[Site]) -> Iterator[Proxy]:
    """Run the gate as `umbel up` does; only the longest body is longer."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    files = {name: folder / name for name in ("users", "sites", "audit")}
    files["users"].write_text(json.dumps([{"name": "me", "role": "viewer", "sha256": digest}]))
    roster = {site.fingerprint: {"site": f"site-{n}"} for n, site in enumerate(sites)}
    files["sites"].write_text(json.dumps(roster))
    config = {
        "doors": [{"api": a, "host": "127.0.0.1", "port": 0} for a in ("fleet", "control")],
        "tls": {"certificate": str(folder / "server.crt"), "key": str(folder / "server.key")},
        "upstream": str(folder / "superlink.sock"),
        "limits": {"fleetBodyBytes": LONGEST},
        **{name: str(path) for name, path in files.items()},
    }
    (folder / "gate.json").write_text(json.dumps(config))
    with process(sys.executable, "-m", "umbel.gate", str(folder / "gate.json")) as started:
        assert started.stdout is not None
        fleet, control = (int(started.stdout.readline().split()[2]) for _ in range(2))
        yield Proxy("gate", started, fleet, control, folder / "server.crt")


NGINX_CONF = """
daemon off; worker_processes auto; pid {folder}/nginx.pid; error_log {folder}/error.log crit; {user}
events {{ worker_connections 8192; }}
http {{
  access_log off; client_max_body_size 0; keepalive_requests 10000000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  upstream superlink {{
    server unix:{folder}/superlink.sock; keepalive 64; keepalive_requests 10000000;
  }}
  server {{
    listen 127.0.0.1:{port} ssl backlog=1024; server_name localhost;
    ssl_certificate {folder}/server.crt; ssl_certificate_key {folder}/server.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    location / {{
      proxy_pass http://superlink; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_request_buffering off; client_body_buffer_size 256k;
      proxy_max_temp_file_size 0; proxy_buffers 16 32k; proxy_read_timeout 3600s;
    }}
  }}
}}
"""


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[Proxy | None]:
    """Run nginx, or give None where it is not installed."""
    if NGINX is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    user = "user root;" if os.geteuid() == 0 else ""  # who reads the folder
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONF.format(folder=folder, port=port, user=user))
    with process(NGINX, "-c", str(config), "-e", str(folder / "error.log")) as started:
        proxy = Proxy("nginx", started, port, port, folder / "server.crt")
        until_true(lambda: _listens(port))
        yield proxy


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until_true(happened: Callable[[], bool], within_s: float = 60) -> None:
    """Wait for something in another process."""
    ends = time.monotonic() + within_s
    while not happened():
        if time.monotonic() > ends:
            raise SystemExit("waited too long")
        time.sleep(0.01)


@contextlib.contextmanager
def upstream(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run what stands behind both."""
    script = Path(__file__).with_name("gate_upstream.py")
    with process(sys.executable, str(script), str(folder / "superlink.sock")) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started


def upstream_says(folder: Path, path: str) -> int:
    """Ask the upstream itself, past the doors."""
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(folder / "superlink.sock"))
        client = Client(raw)
        client.send(request(path, {}))
        return client.answer()
