"""umbel up"""  # noqa: D400

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from umbel.cli import context, hub
from umbel.cli.output import AsOutput, Output, console, readable_errors, say, show_data, table
from umbel.cli.status import show_sites

EXAMPLES = """Examples:

  umbel up                      three sites on this machine
  umbel up -f federation.yaml   what the document declares
  umbel up --rotate-ca          a new CA; the sites are restarted with it
  umbel up -f F --context hub   a document with `on: ocm`, on the hub of kubectl's context "hub"
  umbel up -f F --basis X       only if nothing changed since `umbel plan -o json` gave basis X
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(up)


def up(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The document.", show_default=False)
    ] = None,
    basis: Annotated[str, typer.Option(help="Refuse if the world has changed since.")] = "",
    rotate_ca: Annotated[
        bool, typer.Option("--rotate-ca", help="Make a new CA and renew every certificate.")
    ] = False,
    kubeconfig: hub.ByKubeconfig = None,
    in_context: hub.InContext = "",
    output: AsOutput = Output.TEXT,
) -> None:
    """Make the world as declared, and return when it takes runs. May be repeated."""
    with readable_errors():
        federation = context.read_document(file)
        way = hub.Way(kubeconfig, in_context)
        if hub.is_on_kubernetes(federation):
            status = hub.up(federation, way, basis=basis, rotate_ca=rotate_ca)
            _show_hub(federation.name, status, output)
            return
        way.assert_unused(federation.name)
        client = context.client()
        client.start()
        document = federation.model_dump_json()
        stream = client.up(federation.name, document, basis, rotate_ca=rotate_ca)
        result = follow_progress(stream, f"{federation.name}: coming up")
        if output in (Output.JSON, Output.YAML):
            show_data(result, output)
            return
        changes = [s for s in result["plan"]["steps"] if s["action"] not in ("keep", "wait")]
        if not changes:
            say(f"{federation.name}: nothing to do")
        show_sites(result["status"], wide=output is Output.WIDE)
        if changes:
            say(f"\n{federation.name} is {result['status']['phase'].lower()}.")
            say("next: umbel run [APP], umbel status, umbel down")


def _show_hub(name: str, status: dict[str, Any], output: Output) -> None:
    if output in (Output.JSON, Output.YAML):
        show_data({"status": status}, output)
        return
    rows = [[s["name"], s["group"], s["state"]] for s in status["sites"]]
    table(["SITE", "GROUP", "STATE"], rows)
    say(f"\n{name} is {status['phase'].lower()}, at {status['endpoint']['control']}.")
    say("next: umbel run [APP], umbel status, umbel down -f FILE")


def follow_progress(stream: Any, title: str) -> Any:
    """Show what is being done; gives the result."""
    out = console(stderr=True)
    if not out.is_terminal:
        for item in stream:
            if "result" in item:
                return item["result"]
            say(f"· {item['progress']}")
        return None
    with out.status(title) as status:
        for item in stream:
            if "result" in item:
                return item["result"]
            status.update(f"{title}: {item['progress']}")
    return None
