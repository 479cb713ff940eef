"""umbel status"""  # noqa: D400

from __future__ import annotations

import select
from typing import Annotated, Any

import typer

from umbel.cli import context
from umbel.cli.output import (
    AsOutput,
    OfFederation,
    Output,
    number,
    readable_errors,
    show_data,
    table,
)

EXAMPLES = """Examples:

  umbel status                     the only federation
  umbel status -o json | jq .phase
  umbel status --watch             again every two seconds, until Ctrl-C
"""
WATCH_S = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(status)


def status(
    federation: OfFederation = "",
    output: AsOutput = Output.TEXT,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again.")] = False,
) -> None:
    """Show conditions, sites, certificates and runs. Exit status 0 when ready, 1 when not."""
    with readable_errors():
        client, name = context.choose(federation)
        while True:
            found = client.status(name)
            if watch:
                typer.clear()
            _show(found, output)
            if not watch:
                break
            select.select([], [], [], WATCH_S)
        raise typer.Exit(0 if found["phase"] == "Ready" else 1)


def _show(found: Any, output: Output) -> None:
    if output in (Output.JSON, Output.YAML):
        show_data(found, output)
        return
    wide = output is Output.WIDE
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    ends = found["endpoint"]
    heads = [["federation", found["name"]], ["phase", found["phase"]], ["versions", versions]]
    doors = [f"{door} {ends[door]}" for door in ("fleet", "control") if ends.get(door)]
    heads.append(["doors", ", ".join(doors) or "unknown"])
    if found.get("age_s") is not None:
        heads.append(["reported", f"{found['age_s']:.0f} s ago"])
    table(["", ""], heads)
    typer.echo()
    columns = ["CONDITION", "STATUS", "REASON", "MESSAGE"]
    rows = [[c["type"], c["status"], c["reason"], _with_hint(c)] for c in found["conditions"]]
    table(columns, rows)
    typer.echo()
    show_sites(found, wide=wide)
    typer.echo()
    _show_certificates(found["certificates"], wide=wide)
    _show_runs(found["runs"])


def _with_hint(condition: Any) -> str:
    hint = f" ({condition['hint']})" if condition["hint"] else ""
    return f"{condition['message']}{hint}"


def show_sites(found: Any, *, wide: bool) -> None:
    """Show a table of sites."""
    columns = ["SITE", "GROUP", "STATE", "PARTITION", "MESSAGE"]
    if wide:
        columns += ["NODE", "KEY"]
    rows = []
    for site in found["sites"]:
        partition = "" if site["partition_id"] is None else str(site["partition_id"])
        row = [site["name"], site["group"], site["state"], partition, site["message"]]
        rows.append(row + ([site["node_id"], site["fingerprint"][:16]] if wide else []))
    table(columns, rows)


def _show_certificates(certificates: Any, *, wide: bool) -> None:
    shown = certificates if wide else [c for c in certificates if c["name"] in ("ca", "gate")]
    rows = [[c["name"], c["not_after"][:10], f"{c['days_left']} days"] for c in shown]
    rest = len(certificates) - len(shown)
    if rest > 0:
        soonest = min(certificates, key=lambda c: c["days_left"])
        rows.append([f"+{rest} sites", soonest["not_after"][:10], f"{soonest['days_left']} days"])
    table(["CERTIFICATE", "ENDS", "LEFT"], rows)


def _show_runs(runs: Any) -> None:
    if runs is None:
        typer.echo("\nruns: nobody could look")
    elif runs:
        typer.echo()
        show_runs(runs[:5])


def show_runs(runs: Any) -> None:
    """Show a table of runs."""
    rows = []
    for run in runs:
        rounds = f"{run['rounds_done']}/{run['rounds'] or '?'}"
        metrics = [number(run["loss"]), number(run["accuracy"])]
        details = run["details"][:60]
        rows.append([run["run_id"], run["app"], run["status"], rounds, *metrics, details])
    table(["RUN", "APP", "STATUS", "ROUNDS", "LOSS", "ACCURACY", "DETAILS"], rows)
