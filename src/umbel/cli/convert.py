"""umbel convert"""  # noqa: D400

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from umbel.cli.output import printable, readable_errors, say
from umbel.errors import RequestError

EXAMPLES = """Examples:

  umbel convert flower-addon values.yaml -o federation.yaml
  umbel convert flower-addon values.yaml --config cluster1-config.yaml
"""


class Format(StrEnum):
    """What is read."""

    FLOWER_ADDON = "flower-addon"


class WouldOverwrite(RequestError):
    """The file that shall be written is there already."""

    code = "U364"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is there already", hint="choose another name, or move it away")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(convert)


def convert(
    kind: Annotated[
        Format, typer.Argument(metavar="FORMAT", help="flower-addon: values of its Helm chart.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The values file.")],
    config: Annotated[
        list[Path] | None,
        typer.Option(
            help="AddOnDeploymentConfigs of single clusters, too; may be given several times.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A new file, or - for the terminal.")
    ] = Path("-"),
) -> None:
    """Write the document that does what another set-up did, and tell what is different."""
    with readable_errors():
        from umbel.documents import dump
        from umbel.documents.convert import from_flower_addon
        from umbel.files import CannotWrite

        assert kind is Format.FLOWER_ADDON  # noqa: S101  # the only one
        converted = from_flower_addon(file, config or [])
        text = dump(converted.federation)
        if str(output) == "-":
            sys.stdout.write(text)
        else:
            try:
                with output.open("x") as made:
                    made.write(text)
            except FileExistsError as error:
                raise WouldOverwrite(output) from error
            except OSError as error:
                raise CannotWrite(output, error) from error
        for note in converted.notes:
            say(f"note: {printable(note)}")
        if str(output) != "-":
            say(f"wrote {output}")
