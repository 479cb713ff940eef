"""umbel doctor"""  # noqa: D400

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from umbel.cli import context
from umbel.cli.output import AsOutput, Output, console, printable, readable_errors, say, show_data

if TYPE_CHECKING:
    from umbel.diagnosis.finding import Finding

EXAMPLES = """Examples:

  umbel doctor                 what is wrong, and what to do about it
  umbel doctor -o wide         also what follows from it
  umbel doctor --canary        also run an app with a known result, in a federation of its own
  umbel doctor -o json | jq '.[] | select(.severity == "problem")'

Changes nothing, and needs nothing to run. A canary that dies switches the fast ways off, until one
lives. Exit status: 0 no problem was found, 1 there is one.
"""
STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(doctor)


def doctor(
    output: AsOutput = Output.TEXT,
    canary: Annotated[
        bool, typer.Option("--canary", help="Also run an app whose result is known; takes seconds.")
    ] = False,
) -> None:
    """Look for what is wrong on this machine; each finding says what to do."""
    with readable_errors():
        from umbel.diagnosis.finding import causes, has_problem

        findings = _look(canary=canary)
        told = causes(findings)
        if output in (Output.JSON, Output.YAML):
            show_data([finding.as_data() for finding in told], output)
        else:
            _show(causes_and_all(told, findings) if output is Output.WIDE else told)
            _sum_up(told, len(findings) - len(told))
        raise typer.Exit(1 if has_problem(told) else 0)


def causes_and_all(told: Sequence[Finding], findings: Sequence[Finding]) -> list[Finding]:
    """Add what follows from what is told, at the end."""
    return [*told, *(finding for finding in findings if finding not in told)]


def _look(*, canary: bool) -> tuple[Finding, ...]:
    out = console(stderr=True)
    if not out.is_terminal:
        return _judged() + (_flown() if canary else ())
    with out.status("looking around; Flower takes a moment to load") as status:
        found = _judged()
        if canary:
            status.update("flying a canary: a federation for a few seconds")
            found += _flown()
        return found


def _flown() -> tuple[Finding, ...]:
    from umbel.diagnosis import canary
    from umbel.diagnosis.finding import has_problem
    from umbel.flower.fast import guard

    flight = canary.fly()
    found = tuple(canary.judge(flight))
    if flight.flew:
        guard.note_verdict(lived=not has_problem(found))
    return found


def _judged() -> tuple[Finding, ...]:
    from umbel.diagnosis.checks import judge
    from umbel.diagnosis.gather import gather

    return judge(gather(context.home()))


def _show(findings: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    for column in ("STATE", "FINDING", "FACT"):
        made.add_column(column, header_style="bold", overflow="fold")
    for finding in findings:
        state = str(finding.severity)
        fact = Text(printable(finding.fact))
        if finding.hint:
            fact.append(f"\n→ {printable(finding.hint)}", style="cyan")
        made.add_row(Text(state, style=STYLES[state]), Text(finding.name), fact)
    console().print(made)


def _sum_up(told: Sequence[Finding], hidden: int) -> None:
    counts = {name: sum(str(f.severity) == name for f in told) for name in ("problem", "warning")}
    parts = [f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts.items() if n]
    more = f"; {hidden} more follow from these: umbel doctor -o wide" if hidden else ""
    say(f"\n{', '.join(parts) or 'all is well'}{more}")
