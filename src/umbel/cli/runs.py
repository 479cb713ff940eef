"""umbel runs"""  # noqa: D400

from __future__ import annotations

import typer

from umbel.cli import context
from umbel.cli.output import AsOutput, OfFederation, Output, readable_errors, show_data
from umbel.cli.status import show_runs

EXAMPLES = """Examples:

  umbel runs
  umbel runs -o json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(runs)


def runs(federation: OfFederation = "", output: AsOutput = Output.TEXT) -> None:
    """List the runs, newest first."""
    with readable_errors():
        client, name = context.choose(federation)
        found = client.runs(name)
        if output in (Output.JSON, Output.YAML):
            show_data(found, output)
        else:
            show_runs(found)
