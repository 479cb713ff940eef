"""umbel down"""  # noqa: D400

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umbel.cli import context
from umbel.cli.output import OfFederation, readable_errors, say
from umbel.cli.up import follow_progress

EXAMPLES = """Examples:

  umbel down                 end it; keys, certificates and state go, results of runs stay
  umbel down --keep-data     end it, and keep everything for the next `umbel up`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(down)


def down(
    federation: OfFederation = "",
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep keys, certificates and state too.")
    ] = False,
) -> None:
    """End a federation: no process is left, its ports are free."""
    with readable_errors():
        client = context.client()
        name = context.pick(client, federation)
        pids = client.pids()
        result = follow_progress(client.down(name, keep_data=keep_data), f"{name}: going down")
        kept = Path(result["kept"])
        client.until_gone(pids)
        say(f"{name} is down" + (f"; kept: {kept}" if kept.exists() else ""))
