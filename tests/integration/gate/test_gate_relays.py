from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.integration.gate.conftest import Gate, Site, Upstream


async def test_a_site_reaches_the_superlink(gate: Gate, upstream: Upstream, north: Site) -> None:
    from conftest import request

    answer = await gate.ask("fleet", request("/v1/fleet/pull-messages", b"hello", north.headers()))
    assert (answer.status, answer.body) == (200, b"hello")
    assert "server" not in answer.headers
    print(upstream.seen[0].headers)
