"""What up, plan and down do with a document whose hub is on Kubernetes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from umbel.cli import context
from umbel.cli.output import console, say
from umbel.errors import RequestError

if TYPE_CHECKING:
    from umbel.model.federation import Federation
    from umbel.operator.by_hand import Hand, Reached

T = TypeVar("T")
ByKubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="How to reach the hub, for one on Kubernetes; left out: as kubectl does.",
        show_default=False,
    ),
]
InContext = Annotated[
    str,
    typer.Option(
        "--context", help="Which context of the kubeconfig; left out: its own.", show_default=False
    ),
]


class NotOnKubernetes(RequestError):
    """A kubeconfig was named for a federation that is on one machine."""

    code = "U391"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not on Kubernetes: --kubeconfig and --context say nothing about it",
            hint="leave them out; one on a hub is named by its document: -f FILE",
        )


class NameTakenHere(RequestError):
    """A federation on this machine has the name of one that goes to a hub."""

    code = "U393"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a federation {name!r} on this machine: commands would mean that one",
            hint=f"give one of them another name, or end the other with: umbel down -n {name}",
        )


@dataclass(frozen=True, slots=True)
class Way:
    """How to reach a hub: as kubectl's options of these names say."""

    kubeconfig: Path | None = None
    context: str = ""

    def assert_unused(self, name: str) -> None:
        """Refuse what would say nothing about a federation on one machine."""
        if self.kubeconfig is not None or self.context:
            raise NotOnKubernetes(name)


def is_on_kubernetes(federation: Federation) -> bool:
    """Whether the document's hub is a pod."""
    from umbel.model.federation import Target

    return federation.spec.superlink.on is Target.OCM


def up(federation: Federation, way: Way, *, basis: str, rotate_ca: bool) -> dict[str, Any]:
    """Make the hub as declared, and remember how to reach the federation."""
    if federation.name in context.names_here():
        raise NameTakenHere(federation.name)
    if basis and basis != plan(federation, way)["basis"]:
        from umbel.engine.engine import PlanOutdated

        raise PlanOutdated(federation.name)

    async def work(hand: Hand, progress: Callable[[str], None]) -> Reached:
        return await hand.up(progress, rotate_ca=rotate_ca)

    found = _with(federation, way, "coming up", work)
    _remember(federation.name, found)
    if not found.kept:
        say("nobody keeps it while you are away: umbel render writes the operator's manifests")
    return dict(found.status)


def plan(federation: Federation, way: Way) -> dict[str, Any]:
    """Say what up would do."""

    async def work(hand: Hand, _: Callable[[str], None]) -> Any:
        return asdict(await hand.plan())

    found: dict[str, Any] = _with(federation, way, "looking", work)
    return found


def down(federation: Federation, way: Way, *, keep_data: bool) -> None:
    """Take the federation off hub and clusters, and forget how it was reached."""
    from umbel.cli.connections import Connections

    async def work(hand: Hand, progress: Callable[[str], None]) -> None:
        await hand.down(progress, keep_data=keep_data)

    _with(federation, way, "going down", work)
    if not keep_data:
        Connections(context.home()).forget(federation.name)


def _with(
    federation: Federation,
    way: Way,
    doing: str,
    work: Callable[[Hand, Callable[[str], None]], Awaitable[T]],
) -> T:
    from umbel.kube import kubeconfig
    from umbel.operator.by_hand import hand
    from umbel.targets.ocm.rendering import check

    check(federation)
    reach = kubeconfig.find(way.kubeconfig, way.context or None)
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
        Connections(context.home()).store(name, Connection(remote, name, found.namespace))
