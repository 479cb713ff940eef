"""A gateway of the tests' own: it reads the name that a client asks for, and passes bytes on untouched.

It stands at an address of the hub's node and knows nothing by itself: whom a name belongs to is
looked up for every connection in the TLSRoutes and Ingresses of the hub's API.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from testbed.api import Api, Object, Refused
from testbed.pods.relay import connected, inside, join, new_socket

ROUTES = "/apis/gateway.networking.k8s.io/v1/tlsroutes"
INGRESSES = "/apis/networking.k8s.io/v1/ingresses"
PASSED_ON = "nginx.ingress.kubernetes.io/ssl-passthrough"
HANDSHAKE, HEAD = 0x16, 5


def name_in(hello: bytes) -> str:
    """Read the name (SNI) that a TLS ClientHello asks for; nothing if it names none."""
    at = 4 + 2 + 32  # kind and length, version, random
    at += 1 + hello[at]  # session
    at += 2 + int.from_bytes(hello[at : at + 2])  # ciphers
    at += 1 + hello[at]  # compression
    end = at + 2 + int.from_bytes(hello[at : at + 2])
    at += 2
    while at + 4 <= end:
        kind, size = int.from_bytes(hello[at : at + 2]), int.from_bytes(hello[at + 2 : at + 4])
        if kind == 0:  # a list with one name of kind 0
            return hello[at + 9 : at + 4 + size].decode("ascii")
        at += 4 + size
    return ""


@dataclass(frozen=True)
class Way:
    """Where a name leads."""

    by: str  # the kind of the object that says so
    address: str
    port: int


class Routes:
    """What the hub's objects say of names, for one gateway and every ingress."""

    def __init__(self, hub: Api, gateway: str) -> None:
        self.hub = hub
        self.gateway = gateway

    def find(self, name: str) -> Way | None:
        """Give where the name leads; nothing if nobody has it."""
        for route in self._list(ROUTES):
            parents = [parent["name"] for parent in route["spec"]["parentRefs"]]
            if name in route["spec"]["hostnames"] and self.gateway in parents:
                (backend,) = route["spec"]["rules"][0]["backendRefs"]
                return self._way("TLSRoute", route, backend["name"], backend["port"])
        for ingress in self._list(INGRESSES):
            passed = ingress["metadata"].get("annotations", {}).get(PASSED_ON) == "true"
            for rule in ingress["spec"].get("rules") or ():
                if passed and rule.get("host") == name:
                    backend = rule["http"]["paths"][0]["backend"]["service"]
                    return self._way("Ingress", ingress, backend["name"], backend["port"]["name"])
        return None

    def _list(self, path: str) -> list[Object]:
        try:
            return list(self.hub.request("GET", path)["items"])
        except Refused:
            return []  # not served

    def _way(self, by: str, route: Object, name: str, port: int | str) -> Way | None:
        service = self.hub.get("v1", "Service", name, route["metadata"]["namespace"])
        for one in service["spec"]["ports"] if service else ():
            if port in (one["port"], one["name"]):
                assert service is not None
                return Way(by, service["spec"]["clusterIP"], one["port"])
        return None


@dataclass
class Passage:
    """Passes connections on, from inside a node's network, so that its services can be reached."""

    routes: Routes
    node: str  # its network namespace
    passed: list[tuple[str, str]] = field(default_factory=list)  # the kind of route, the name
    refused: list[str] = field(default_factory=list)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @contextlib.contextmanager
    def serving(self, address: str, port: int) -> Iterator[Passage]:
        """Serve the address until the end of the story."""
        with inside(self.node):
            listening = new_socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            start = asyncio.start_server(self._meet, sock=listening)
            server = asyncio.run_coroutine_threadsafe(start, loop).result()
            yield self
            asyncio.run_coroutine_threadsafe(self._end(server), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def hang_up(self) -> None:
        """Break every connection: whoever wants to go on has to ask again."""
        for writer in list(self._open):
            with contextlib.suppress(OSError):  # it has just ended by itself
                writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        self.hang_up()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        await server.wait_closed()
        await asyncio.get_running_loop().shutdown_default_executor()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readexactly(HEAD)
            size = int.from_bytes(head[3:]) if head[0] == HANDSHAKE else 0
            body = await reader.readexactly(size)
            name = name_in(body)
        except (asyncio.IncompleteReadError, ConnectionError, IndexError):
            self._refuse("no TLS", writer)
            return
        way = await asyncio.to_thread(self.routes.find, name)
        if way is None:
            self._refuse(name, writer)
            return
        try:
            far = await asyncio.open_connection(
                sock=await connected(self.node, way.address, way.port)
            )
        except (OSError, TimeoutError):
            writer.close()
            return
        self.passed.append((way.by, name))
        self._open |= {writer, far[1]}
        far[1].write(head + body)
        try:
            await join((reader, writer), far)
        finally:
            self._open -= {writer, far[1]}

    def _refuse(self, name: str, writer: asyncio.StreamWriter) -> None:
        self.refused.append(name)
        writer.close()
