"""How answers and errors look."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umbel.errors import UmbelError

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 160


class Output(StrEnum):
    """What an answer looks like."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


AsOutput = Annotated[
    Output, typer.Option("--output", "-o", help="text, wide, json or yaml.", show_default=False)
]
OfFederation = Annotated[
    str,
    typer.Option(
        "--federation",
        "-n",
        envvar="UMBEL_FEDERATION",
        help="Which federation; needed only when there are several. Or set UMBEL_FEDERATION.",
        show_default=False,
        show_envvar=False,
    ),
]


def console(*, stderr: bool = False) -> Console:
    """Give a console that fits the terminal, and does not cut lines in a pipe."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else int(os.environ.get("COLUMNS", PIPE_WIDTH))
    if os.environ.get("NO_COLOR"):  # not even bold
        return Console(stderr=stderr, width=width, highlight=False, color_system=None)
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def say(text: str = "") -> None:
    """Talk to the person; not part of the answer."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def show_data(data: Any, output: Output) -> None:
    """Print the model itself."""
    if output is Output.YAML:
        import yaml

        sys.stdout.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    else:
        sys.stdout.write(json.dumps(data, indent=2) + "\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows that fit the terminal."""
    from rich.table import Table
    from rich.text import Text

    shown = any(columns)
    made = Table(
        title=title or None, title_justify="left", box=None, pad_edge=False, show_header=shown
    )
    for position, column in enumerate(columns):
        made.add_column(column, header_style="bold", overflow="fold", no_wrap=position == 0)
    for row in rows:
        made.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    console().print(made)


_STYLES = {
    "online": "green",
    "completed": "green",
    "True": "green",
    "Ready": "green",
    "offline": "red",
    "failing": "red",
    "failed": "red",
    "False": "red",
    "Down": "red",
    "Degraded": "yellow",
    "Unknown": "yellow",
    "unknown": "yellow",
    "starting": "yellow",
    "running": "cyan",
    "not-chosen": "dim",
}


def _style(cell: str) -> str:
    return _STYLES.get(cell, "")


def number(value: float | None) -> str:
    """Write a metric."""
    return "-" if value is None else f"{value:.4f}"


def show_error(error: UmbelError) -> None:
    """Tell what is wrong and what to do; never a traceback. Lines are left whole, for paths to copy."""
    from rich.text import Text

    out = console(stderr=True)
    problems = getattr(error, "problems", ())
    fact = f"{len(problems)} mistakes in the document" if len(problems) > 1 else error.fact
    out.print(
        Text.assemble(("error", "bold red"), f"[{error.code}]: ", printable(fact)), soft_wrap=True
    )
    for problem in problems:
        out.print(Text("\n" + problem.render()), soft_wrap=True)
    if error.hint and not problems:
        out.print(Text.assemble(("hint", "bold cyan"), ": ", printable(error.hint)), soft_wrap=True)


def printable(text: str) -> str:
    """Keep control characters of others away from the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn our errors into words and an exit status; a bug stays a traceback."""
    try:
        yield
    except UmbelError as error:
        show_error(error)
        raise typer.Exit(error.exit_status) from None
    except BrokenPipeError:
        # Whoever reads has gone: nothing more to say, also not at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(130) from None
