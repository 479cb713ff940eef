"""What up, plan and down do with a document whose hub is on Kubernetes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from umbel.cli import context
from umbel.cli.output import console, say

if TYPE_CHECKING:
    from umbel.model.federation import Federation
    from umbel.operator.by_hand import Hand, Reached

T = TypeVar("T")


def is_on_kubernetes(federation: Federation) -> bool:
    """Whether the document's hub is a pod."""
    from umbel.model.federation import Target

    return federation.spec.superlink.on is Target.OCM


def up(federation: Federation, *, rotate_ca: bool) -> dict[str, Any]:
    """Make the hub as declared, and remember how to reach the federation."""

    async def work(hand: Hand, progress: Callable[[str], None]) -> Reached:
        return await hand.up(progress, rotate_ca=rotate_ca)

    found = _with(federation, "coming up", work)
    _remember(federation.name, found)
    if not found.kept:
        say("nobody keeps it while you are away: umbel render writes the operator's manifests")
    return dict(found.status)


def plan(federation: Federation) -> dict[str, Any]:
    """Say what up would do."""

    async def work(hand: Hand, _: Callable[[str], None]) -> Any:
        return asdict(await hand.plan())

    found: dict[str, Any] = _with(federation, "looking", work)
    return found


def down(federation: Federation, *, keep_data: bool) -> None:
    """Take the federation off hub and clusters."""

    async def work(hand: Hand, progress: Callable[[str], None]) -> None:
        await hand.down(progress, keep_data=keep_data)

    _with(federation, "going down", work)


def _with(
    federation: Federation,
    doing: str,
    work: Callable[[Hand, Callable[[str], None]], Awaitable[T]],
) -> T:
    from umbel.kube import kubeconfig
    from umbel.operator.by_hand import hand

    reach = kubeconfig.find()
    out, title = console(stderr=True), f"{federation.name}: {doing}"

    async def run(progress: Callable[[str], None]) -> T:
        async with hand(reach, federation) as one:
            return await work(one, progress)

    if not out.is_terminal:
        return asyncio.run(run(lambda text: say(f"· {text}")))
    with out.status(title) as status:
        return asyncio.run(run(lambda text: status.update(f"{title}: {text}")))


def _remember(name: str, found: Reached) -> None:
    from umbel.cli.connections import Connection, Connections
    from umbel.remote import Remote

    with tempfile.TemporaryDirectory() as made:
        ca, token = Path(made) / "ca.crt", Path(made) / "token"
        ca.write_text(found.bundle)
        token.touch(0o600)
        token.write_text(found.token)
        remote = Remote(found.address, ca, token)
        Connections(context.home()).store(name, Connection(remote, name))
