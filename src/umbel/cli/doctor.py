"""umbel doctor"""  # noqa: D400

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor() -> None:
    """Look for what is wrong."""
