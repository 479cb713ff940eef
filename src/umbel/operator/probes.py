"""What the kubelet and Prometheus ask the operator."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable
from typing import Self

from umbel.kube import kinds
from umbel.kube.client import Kube
from umbel.operator.loop import Loop

Answer = Callable[[str], tuple[int, str]]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PROBES_PORT = 8080
METRICS_PORT = 8081


class Probes:
    """Two small servers: one for health, one for numbers."""

    def __init__(
        self, loop: Loop, kube: Kube, probes: int = PROBES_PORT, metrics: int = METRICS_PORT
    ) -> None:
        self._loop = loop
        self._kube = kube
        self._ports = (probes, metrics)
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Self:
        for port, answer in zip(self._ports, (self._probe, self._metrics), strict=True):
            self._servers.append(await asyncio.start_server(_handler(answer), port=port))
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    def _probe(self, path: str) -> tuple[int, str]:
        """Alive while it answers; ready whether it leads or waits for the lease."""
        return (200, "ok\n") if path in ("/healthz", "/readyz") else (404, "")

    def _metrics(self, path: str) -> tuple[int, str]:
        return (200, self.numbers()) if path == "/metrics" else (404, "")

    def numbers(self) -> str:
        """Give the operator's own numbers in Prometheus' text form."""
        cache = self._loop.cache[kinds.FEDERATION]
        lines = [
            "# TYPE umbel_operator_writes_total counter",
            *(
                f'umbel_operator_writes_total{{kind="{kind}"}} {count}'
                for kind, count in sorted(self._kube.written.items())
            ),
            "# TYPE umbel_operator_looks_total counter",
            f"umbel_operator_looks_total {self._loop.looks}",
            "# TYPE umbel_operator_peak_memory_bytes gauge",
            f"umbel_operator_peak_memory_bytes {_peak()}",
            "# TYPE umbel_federation_sites gauge",
        ]
        for content in cache.objects.values():
            meta, status = content["metadata"], content.get("status") or {}
            about = f'namespace="{meta["namespace"]}",federation="{meta["name"]}"'
            for state, key in (("online", "sitesOnline"), ("wanted", "sitesWanted")):
                value = status.get(key, 0)
                lines.append(f'umbel_federation_sites{{{about},state="{state}"}} {value}')
            ready = int(status.get("phase") == "Ready")
            lines.append(f"umbel_federation_ready{{{about}}} {ready}")
        return "\n".join(lines) + "\n"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _handler(answer: Answer) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                line = (await reader.readline()).decode("latin-1").split(" ")
                status, text = answer(line[1] if len(line) > 1 else "")
                body = text.encode()
                head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass
        finally:
            writer.close()

    return handle
