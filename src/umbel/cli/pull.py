"""umbel pull"""  # noqa: D400

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from umbel.cli import context
from umbel.cli.output import AsOutput, OfFederation, Output, readable_errors, say, show_data
from umbel.files import CannotWrite

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
        client = context.client()
        name = context.pick(client, federation)
        found = client.get_run(name, run)
        files = [Path(path) for path in client.files(name, found["run_id"])]
        into = folder or Path(f"run-{found['run_id']}")
        source = next(p for path in files for p in path.parents if p.name == found["run_id"])
        written = []
        for path in files:
            goal = into / path.relative_to(source)
            try:
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, goal)
            except OSError as error:
                raise CannotWrite(goal, error) from error
            written.append(str(goal))
        if output in (Output.JSON, Output.YAML):
            show_data(written, output)
            return
        for line in written:
            say(f"{Path(line).stat().st_size:>12,} bytes  {line}")
