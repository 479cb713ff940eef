"""umbel logs"""  # noqa: D400

from __future__ import annotations

import sys
from typing import Annotated

import typer

from umbel.cli import context
from umbel.cli.output import OfFederation, printable, readable_errors

EXAMPLES = """Examples:

  umbel logs 1234                    what the ServerApp wrote
  umbel logs 1234 --site local-2 -f  what the ClientApp at local-2 writes
  umbel logs 1234 --site all         everybody, each line with its place
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(logs)


def logs(
    run: Annotated[str, typer.Argument(help="The run.")],
    site: Annotated[str, typer.Option("--site", "-s", help="A site, or all.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while it runs.")] = False,
    federation: OfFederation = "",
) -> None:
    """Show what a run's apps wrote."""
    with readable_errors():
        client, name = context.choose(federation)
        for item in client.logs(name, run, site=site, follow=follow):
            place = f"{item['site']:<12} " if site == "all" else ""
            sys.stdout.write(f"{place}{printable(item['line'])}\n")
            if follow:
                sys.stdout.flush()
