"""umbel stop"""  # noqa: D400

from __future__ import annotations

from typing import Annotated

import typer

from umbel.cli import context
from umbel.cli.output import AsOutput, OfFederation, Output, readable_errors, say, show_data

EXAMPLES = """Examples:

  umbel stop 1234          a run's id; its first digits will do
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(stop)


def stop(
    run: Annotated[str, typer.Argument(help="The run.")],
    federation: OfFederation = "",
    output: AsOutput = Output.TEXT,
) -> None:
    """Stop a run and end all its processes. May be repeated, in every state."""
    with readable_errors():
        client, name = context.choose(federation)
        found = client.stop(name, run)
        if output in (Output.JSON, Output.YAML):
            show_data(found, output)
        else:
            say(f"run {found['run_id']}: {found['status']}")
