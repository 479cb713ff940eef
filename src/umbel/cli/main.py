"""The umbel command."""

from __future__ import annotations

import importlib
import sys
from typing import Annotated

import typer
import typer.core

from umbel import __version__

COMMANDS = (
    "init",
    "plan",
    "up",
    "status",
    "run",
    "runs",
    "logs",
    "stop",
    "pull",
    "scale",
    "down",
    "connect",
    "doctor",
    "simulate",
    "render",
    "convert",
    "operator",
    "schema",
)

typer.core.HAS_RICH = False  # else plain help shows the escapes of its square brackets
app = typer.Typer(
    name="umbel",
    help="One declared document becomes a running, secured, observed Flower federation.\n\n"
    "Start here: umbel up, then umbel run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"umbel {__version__}")
        raise typer.Exit


@app.callback()
def umbel(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """One declared document becomes a running, secured, observed Flower federation."""


def _register(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(f"umbel.cli.{name}").register(app)
    for command in app.registered_commands:  # else lines of examples would be joined to paragraphs
        command.epilog = (command.epilog or "").replace("\n\n", "\n\n\b\n")


def main() -> None:
    """Run the command line. Only the module of the named command is loaded."""
    named = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    completing = any(key.startswith("_UMBEL_COMPLETE") for key in __import__("os").environ)
    _register((named,) if named in COMMANDS and not completing else COMMANDS)
    app()


if __name__ == "__main__":
    main()
