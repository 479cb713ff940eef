"""umbel schema"""  # noqa: D400

from __future__ import annotations

import typer

from umbel.cli.output import AsOutput, Output, readable_errors, show_data

EXAMPLES = """Examples:

  umbel schema > federation.schema.json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(schema)


def schema(output: AsOutput = Output.JSON) -> None:
    """Print the document's JSON Schema, for editors and validators."""
    with readable_errors():
        from umbel.documents import schema as document_schema

        show_data(document_schema(), output)
