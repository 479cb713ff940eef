"""umbel down"""  # noqa: D400

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from umbel.cli import context, hub
from umbel.cli.output import OfFederation, readable_errors, say
from umbel.cli.up import follow_progress

if TYPE_CHECKING:
    from umbel.cli.connections import Connection

EXAMPLES = """Examples:

  umbel down                 end it; keys, certificates and state go, results of runs stay
  umbel down --keep-data     end it, and keep everything for the next `umbel up`
  umbel down -f federation.yaml   one on Kubernetes: off the hub and its clusters
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(down)


def down(
    federation: OfFederation = "",
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="Its document; one on Kubernetes needs it.", show_default=False
        ),
    ] = None,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep keys, certificates and state too.")
    ] = False,
    kubeconfig: hub.ByKubeconfig = None,
    in_context: hub.InContext = "",
) -> None:
    """End a federation: no process is left, its ports are free."""
    with readable_errors():
        way = hub.Way(kubeconfig, in_context)
        document = context.read_document(file) if file is not None else None
        if document is not None and hub.is_on_kubernetes(document):
            hub.down(document, way, keep_data=keep_data)
            say(f"{document.name} is gone from the hub and its clusters")
            return
        client, name = context.here(document.name if document else federation, _there)
        way.assert_unused(name)
        pids = client.pids()
        result = follow_progress(client.down(name, keep_data=keep_data), f"{name}: going down")
        kept = Path(result["kept"])
        client.until_gone(pids)
        say(f"{name} is down" + (f"; kept: {kept}" if kept.exists() else ""))


def _there(one: Connection) -> str:
    kubectl = f"kubectl {one.in_namespace}delete federation {one.federation}"
    return f"on its hub: umbel down -f FILE, or {kubectl}; umbel connect NAME --forget forgets it"
