"""umbel plan"""  # noqa: D400

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umbel.cli import context, hub
from umbel.cli.output import AsOutput, Output, readable_errors, say, show_data, table

if TYPE_CHECKING:
    from umbel.model.federation import Federation

EXAMPLES = """Examples:

  umbel plan -f federation.yaml
  umbel plan -f federation.yaml -o json | jq -r .basis

Exit status: 0 nothing to do, 2 the document is invalid, 10 there are changes.
"""
CHANGES = 10
SIGNS = {"create": "+", "replace": "~", "remove": "-", "keep": " ", "wait": "?"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(plan)


def plan(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The document.", show_default=False)
    ] = None,
    kubeconfig: hub.ByKubeconfig = None,
    in_context: hub.InContext = "",
    output: AsOutput = Output.TEXT,
) -> None:
    """Show what up would do, and why. Changes nothing."""
    with readable_errors():
        federation = context.read_document(file)
        way = hub.Way(kubeconfig, in_context)
        if hub.is_on_kubernetes(federation):
            found = hub.plan(federation, way)
        else:
            way.assert_unused(federation.name)
            found = _plan_here(federation)
        changes = [s for s in found["steps"] if s["action"] not in ("keep", "wait")]
        if output in (Output.JSON, Output.YAML):
            show_data(found, output)
        else:
            _show(found, changes)
        raise typer.Exit(CHANGES if changes else 0)


def _plan_here(federation: Federation) -> Any:
    """Ask the daemon; without one nothing runs, and the same engine looks at an empty world."""
    client = context.client()
    if client.running():
        return client.plan(federation.name, federation.model_dump_json())
    from umbel.wiring import build_looker

    return asdict(asyncio.run(build_looker(context.home()).plan(federation)))


def _show(found: Any, changes: list[Any]) -> None:
    rows = [
        [v["site"], "yes" if v["chosen"] else "no", "; ".join(v["reasons"])]
        for v in found["verdicts"]
    ]
    table(["SITE", "CHOSEN", "REASON"], rows)
    typer.echo()
    rows = [
        [SIGNS[s["action"]] + " " + s["action"], s["unit"], s["reason"]] for s in found["steps"]
    ]
    table(["STEP", "UNIT", "REASON"], rows)
    say()
    many = "1 change" if len(changes) == 1 else f"{len(changes)} changes"
    say(f"{many}; umbel up makes them" if changes else "nothing to do")
