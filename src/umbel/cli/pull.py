"""umbel pull"""  # noqa: D400

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umbel.cli import context
from umbel.cli.output import AsOutput, OfFederation, Output, readable_errors, say, show_data

EXAMPLES = """Examples:

  umbel pull 1234              into the folder run-1234…
  umbel pull 1234 results      into the folder results
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(pull)


def pull(
    run: Annotated[str, typer.Argument(help="The run.")],
    folder: Annotated[Path | None, typer.Argument(help="Where to put the files.")] = None,
    federation: OfFederation = "",
    output: AsOutput = Output.TEXT,
) -> None:
    """Fetch a run's final model (model.npz), metrics (metrics.json), log and own files."""
    with readable_errors():
        client, name = context.choose(federation)
        run_id = client.get_run(name, run)["run_id"]
        written = client.pull(name, run_id, folder or Path(f"run-{run_id}"))
        if output in (Output.JSON, Output.YAML):
            show_data([str(path) for path in written], output)
            return
        for path in written:
            say(f"{path.stat().st_size:>12,} bytes  {path}")
