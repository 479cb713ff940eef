"""Listens, lets in, and ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import ssl
import sys
from collections import Counter

from umbel.errors import UmbelError, WorldError
from umbel.flower.routes import Api
from umbel.gate.audit import Entry
from umbel.gate.config import Config, Door, Tls
from umbel.gate.house import House
from umbel.gate.policy import STRANGER
from umbel.gate.protocol import Connection
from umbel.gate.throttle import network_of

GRACE_S = 1.0  # what is in flight may take so long to end
BACKLOG = 1024

_ELSEWHERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_BREATH_S = 0.1  # after a failed accept


class PortTaken(WorldError):
    """Somebody else listens on a door's port."""

    code = "U241"
    exit_status = 3

    def __init__(self, door: Door) -> None:
        super().__init__(
            f"port {door.port} on {door.host} is taken; the {door.api} door needs it",
            hint=f"find out who listens with `ss -ltnp 'sport = :{door.port}'`, or leave the port "
            "out of spec.superlink.ports and a free one is chosen",
        )


class CannotListen(WorldError):
    """A door's address cannot be used on this machine."""

    code = "U242"
    exit_status = 2

    def __init__(self, door: Door, reason: str) -> None:
        super().__init__(
            f"the {door.api} door cannot listen on {door.host} port {door.port}: {reason}",
            hint="set spec.superlink.listen to an address of this machine, and a port above 1023",
        )


class CertificateUnusable(WorldError):
    """The server's certificate and key cannot be used."""

    code = "U245"
    exit_status = 2

    def __init__(self, tls: Tls, reason: str) -> None:
        super().__init__(
            f"the gate cannot use the certificate {tls.certificate} with the key {tls.key}: "
            f"{reason}",
            hint="umbel writes both files: repeat `umbel up`",
        )


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Make the context of every door: TLS 1.2 or newer, HTTP/1.1 only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load(context, tls)
    return context


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except ssl.SSLError as error:
        raise CertificateUnusable(tls, error.reason or "they do not fit") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the key is encrypted"
        raise CertificateUnusable(tls, reason or "cannot be read") from error


def _no_password() -> str:
    """Keep OpenSSL from asking a terminal."""
    raise ValueError


def listen(door: Door) -> list[socket.socket]:
    """Listen on every address that the door's host stands for."""
    try:
        found = socket.getaddrinfo(door.host, door.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotListen(door, error.strerror or str(error)) from error
    listeners: list[socket.socket] = []
    reason = "the name has no address"
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            listeners.append(_bound(family, address))
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno in _ELSEWHERE:
                continue
            for listener in listeners:
                listener.close()
            if error.errno == errno.EADDRINUSE:
                raise PortTaken(door) from error
            raise CannotListen(door, reason) from error
    if not listeners:
        raise CannotListen(door, reason)
    return listeners


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class Server:
    """The listening sockets of a gate, and the connections that came through them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._context = tls_context(config.tls)
        own = config.runtime_tls
        self._runtime = tls_context(own) if own is not None else self._context
        self._house = House(config)
        self._peers: Counter[str] = Counter()
        self._listeners: list[tuple[Door, socket.socket]] = []
        self._handshakes: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serve until told to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        self._open()
        self._house.audit.event("gate started")
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._accept(*pair)) for pair in self._listeners]
                tasks.append(group.create_task(self._sweep()))
                await self._stop.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await self._end()

    def reload(self) -> None:
        """Read certificate, users and sites again; what is open stays open."""
        try:
            tls_context(self._config.tls)  # a bad pair must not spoil the one in use
            _load(self._context, self._config.tls)
        except CertificateUnusable as error:
            tell(error)
        for fault in self._house.credentials.refresh():
            tell(fault)
        self._house.audit.event("gate reloaded")
        say("reloaded")

    def _open(self) -> None:
        try:
            for door in self._config.doors:
                self._listeners += [(door, sock) for sock in listen(door)]
        except UmbelError:
            self._shut()
            raise
        for door, sock in self._listeners:
            host, port = sock.getsockname()[:2]
            say(f"{door.api} {host} {port}")

    def _shut(self) -> None:
        for _, sock in self._listeners:
            sock.close()
        self._listeners.clear()

    async def _accept(self, door: Door, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError:  # no descriptors left, or the client went away
                await asyncio.sleep(_BREATH_S)
                continue
            peer = network_of(address[0])
            if not self._has_room(peer):
                sock.close()
                self._house.note(Entry(door.api, STRANGER, peer, "connection", 429, why="crowded"))
                continue
            self._peers[peer] += 1
            task = loop.create_task(self._serve(door, sock, peer))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def _has_room(self, peer: str) -> bool:
        limits = self._config.limits
        if self._peers.total() >= limits.connections:
            return False
        return self._peers.get(peer, 0) < limits.connections_per_peer

    async def _serve(self, door: Door, sock: socket.socket, peer: str) -> None:
        """Shake hands; whoever does not speak TLS is left standing."""
        loop = asyncio.get_running_loop()
        limits = self._config.limits
        guest = _Guest(self._house, door, peer, self._peers)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await loop.connect_accepted_socket(
                lambda: guest,
                sock,
                ssl=self._runtime if door.api is Api.RUNTIME else self._context,
                ssl_handshake_timeout=limits.handshake_seconds,
                ssl_shutdown_timeout=limits.send_idle_seconds,
            )
        except (OSError, ssl.SSLError):
            sock.close()
        finally:
            guest.shaken()

    async def _sweep(self) -> None:
        limits = self._config.limits
        shortest = min(limits.header_seconds, limits.body_idle_seconds, limits.idle_seconds)
        pause = min(1.0, shortest / 4)
        while True:
            await asyncio.sleep(pause)
            for fault in self._house.sweep():
                tell(fault)

    async def _end(self) -> None:
        self._shut()
        self._house.stopping = True
        for connection in list(self._house.connections):
            if not connection.busy:
                connection.close()
        loop = asyncio.get_running_loop()
        until = loop.time() + GRACE_S
        while loop.time() < until and any(c.busy for c in self._house.connections):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self._house.close()
        for task in list(self._handshakes):
            task.cancel()


class _Guest(Connection):
    """A connection that is counted from before its handshake to its very end."""

    def __init__(self, house: House, door: Door, peer: str, peers: Counter[str]) -> None:
        super().__init__(house, door.api, peer)
        self._peers = peers
        self._inside = False
        self._counted = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inside = True
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._discount()

    def shaken(self) -> None:
        """The handshake is over; without success, nothing else will tell."""
        if not self._inside:
            self._discount()

    def _discount(self) -> None:
        if self._counted:
            self._counted = False
            self._peers[self.peer] -= 1
            if not self._peers[self.peer]:
                del self._peers[self.peer]


def say(line: str) -> None:
    """Say on stdout how things go."""
    with contextlib.suppress(OSError):  # whoever listened may be gone; the gate goes on
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def tell(error: UmbelError) -> None:
    """Say on stderr what is wrong, in one line."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{error}. Hint: {error.hint}\n")
        sys.stderr.flush()
