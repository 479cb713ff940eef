"""umbel init"""  # noqa: D400

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umbel.cli.output import readable_errors, say
from umbel.errors import RequestError

EXAMPLES = """Examples:

  umbel init my-app && cd my-app
  umbel up -f federation.yaml
  umbel run .
"""
DOCUMENT = "federation.yaml"


class DocumentExists(RequestError):
    """There is a federation.yaml already."""

    code = "U314"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is there already", hint="choose another folder, or move it away")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(init)


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path(),
) -> None:
    """Write a commented federation.yaml and a runnable Flower app. Overwrites nothing."""
    with readable_errors():
        from umbel.apps import quickstart
        from umbel.documents import commented_template, slug
        from umbel.files import CannotWrite

        document = folder / DOCUMENT
        if document.exists():
            raise DocumentExists(document)
        written = quickstart.write(folder)
        try:
            document.write_text(commented_template(slug(folder.absolute().name) or "lab"))
        except OSError as error:
            raise CannotWrite(document, error) from error
        for path in (document, *written):
            say(f"wrote {path}")
        go = "" if folder == Path() else f"cd {folder} && "
        say(f"\nnext: {go}umbel up && umbel run .")
