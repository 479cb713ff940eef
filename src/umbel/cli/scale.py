"""umbel scale"""  # noqa: D400

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from umbel.cli import context
from umbel.cli.output import AsOutput, OfFederation, Output, readable_errors, show_data
from umbel.cli.status import show_sites
from umbel.cli.up import follow_progress

if TYPE_CHECKING:
    from umbel.cli.connections import Connection

EXAMPLES = """Examples:

  umbel scale local 5       five sites in group "local"
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(scale)


def scale(
    group: Annotated[str, typer.Argument(help="The group's name.")],
    count: Annotated[int, typer.Argument(help="How many sites it should have.")],
    federation: OfFederation = "",
    output: AsOutput = Output.TEXT,
) -> None:
    """Change the number of sites of a group. A site that comes back has its old partition."""
    with readable_errors():
        client, name = context.here(federation, partial(_there, group, count))
        result = follow_progress(client.scale(name, group, count), f"{name}: scaling {group}")
        if output in (Output.JSON, Output.YAML):
            show_data(result["status"], output)
        else:
            show_sites(result["status"], wide=output is Output.WIDE)


def _there(group: str, count: int, one: Connection) -> str:
    where = f"placement.numberOfClusters of its group {group} to {count}"
    edit = f"kubectl {one.in_namespace}edit federation {one.federation}"
    return f"set {where} in its document and repeat umbel up -f FILE, or: {edit}"
