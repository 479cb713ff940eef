"""umbel down"""  # noqa: D400

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umbel.cli import context, hub
from umbel.cli.output import OfFederation, readable_errors, say
from umbel.cli.up import follow_progress

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
            "--file", "-f", help="Its document, for one on Kubernetes.", show_default=False
        ),
    ] = None,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep keys, certificates and state too.")
    ] = False,
) -> None:
    """End a federation: no process is left, its ports are free."""
    with readable_errors():
        if file is not None and hub.is_on_kubernetes(document := context.read_document(file)):
            hub.down(document, keep_data=keep_data)
            say(f"{document.name} is gone from the hub and its clusters")
            return
        client = context.client()
        name = context.pick(client, federation)
        pids = client.pids()
        result = follow_progress(client.down(name, keep_data=keep_data), f"{name}: going down")
        kept = Path(result["kept"])
        client.until_gone(pids)
        say(f"{name} is down" + (f"; kept: {kept}" if kept.exists() else ""))
