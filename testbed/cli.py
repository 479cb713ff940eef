"""python -m testbed: build, up, down, and what to do to it meanwhile."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from testbed import fleet
from testbed.bed import Bed, clear, is_up
from testbed.build import build as build_programs
from testbed.errors import BedError, NotUp
from testbed.layout import default_state
from testbed.pods import images
from testbed.pods.node import assert_can_run
from testbed.processes import runs
from testbed.programs import cache

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Real Kubernetes and real Open Cluster Management on this machine, for tests.",
)
err = Console(stderr=True, highlight=False)

State = Annotated[Path, typer.Option("--state", help="The folder of this test bed.")]
Name = Annotated[str, typer.Argument(help="A process as `status` names it.")]
Spoke = Annotated[str, typer.Argument(help="A managed cluster.")]
STATE = default_state()


@contextmanager
def readable_errors() -> Iterator[None]:
    try:
        yield
    except BedError as error:
        err.print(f"error: {error.fact}", style="red", markup=False)
        if error.hint:
            err.print(f"hint: {error.hint}", markup=False)
        raise typer.Exit(1) from error


@app.command()
def build() -> None:
    """Build every program that is missing; what is built is kept."""
    with readable_errors():
        build_with_progress()


def build_with_progress() -> None:
    """Build, and show how far each program is."""
    begun = time.monotonic()
    columns = (SpinnerColumn(), TextColumn("{task.description:26} {task.fields[word]}"))
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def tell(name: str, word: str) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=None, word=word)
            if word == "done":
                progress.console.print(f"{time.monotonic() - begun:6.0f} s  built {name}")
                progress.remove_task(tasks[name])
            else:
                progress.update(tasks[name], word=word)

        build_programs(tell)
    err.print(f"all programs are there ({time.monotonic() - begun:.1f} s)")


@app.command()
def up(
    spokes: Annotated[int, typer.Option(min=1, help="How many managed clusters.")] = 2,
    file: Annotated[Path | None, typer.Option(help="A fleet file, instead of a number.")] = None,
    pods: Annotated[
        bool, typer.Option("--pods", help="Real kubelets run real containers.")
    ] = False,
    state: State = STATE,
) -> None:
    """Bring up a hub and its managed clusters; what an earlier run left is cleared first."""
    with readable_errors():
        wanted = fleet.load(file) if file else fleet.of_size(spokes)
        build_with_progress()
        archives = node_images() if pods else ()
        begun = time.monotonic()

        def tell(step: str) -> None:
            err.print(f"{time.monotonic() - begun:5.1f} s  {step}")

        Bed.up(state, wanted, tell, archives)
        tell("all clusters are Available")


def node_images() -> tuple[Path, ...]:
    """Make what every node needs; say first if nodes cannot run here."""
    assert_can_run()
    return images.build(cache() / "images", project=None)


@app.command()
def image(state: State = STATE) -> None:
    """Build the project's container image and load it into every node."""
    with readable_errors():
        Bed.at(state).load(images.build(cache() / "images"))
        typer.echo(images.UMBEL)


@app.command()
def down(state: State = STATE) -> None:
    """End every process and remove every file of this test bed."""
    with readable_errors():
        clear(state)


@app.command()
def status(state: State = STATE) -> None:
    """Show every process and every cluster; the exit status is 1 if something is wrong."""
    with readable_errors():
        bed = Bed.at(state)
        table = Table("process", "pid", "state", box=None)
        for record in bed.processes.all():
            table.add_row(record.name, str(record.pid), "runs" if runs(record) else "ended")
        console = Console()
        console.print(table)
        if not is_up(state):
            raise typer.Exit(1)
        clusters = bed.available()
        for name, said in clusters.items():
            console.print(f"{name}: {'Available' if said == 'True' else said or 'not joined'}")
        raise typer.Exit(0 if set(clusters.values()) == {"True"} else 1)


@app.command()
def kubeconfig(
    name: Annotated[str, typer.Argument(help="hub, or a managed cluster.")], state: State = STATE
) -> None:
    """Print the path of a cluster's kubeconfig, for KUBECONFIG."""
    with readable_errors():
        typer.echo(Bed.at(state).layout.kubeconfig(name))


@app.command()
def logs(name: Name, state: State = STATE) -> None:
    """Print what a process said."""
    with readable_errors():
        path = Bed.at(state).processes.log(name)
        if not path.exists():
            raise NotUp(f"log of {name}")
        with path.open(errors="replace") as log:
            shutil.copyfileobj(log, sys.stdout)


@app.command()
def kill(name: Name, state: State = STATE) -> None:
    """End a process at once, as a crash would."""
    with readable_errors():
        Bed.at(state).kill(name)


@app.command()
def start(name: Name, state: State = STATE) -> None:
    """Start a process again that was killed."""
    with readable_errors():
        Bed.at(state).restart(name)


@app.command()
def cut(name: Spoke, state: State = STATE) -> None:
    """Part a managed cluster from the hub; open connections stall."""
    with readable_errors():
        Bed.at(state).cut(name)


@app.command()
def heal(name: Spoke, state: State = STATE) -> None:
    """Undo cut and delay."""
    with readable_errors():
        Bed.at(state).heal(name)


@app.command()
def delay(
    name: Spoke,
    milliseconds: Annotated[float, typer.Argument(min=0)],
    state: State = STATE,
) -> None:
    """Delay all traffic between a managed cluster and the hub, each way."""
    with readable_errors():
        Bed.at(state).delay(name, milliseconds)


@app.command()
def behave(
    name: Spoke,
    pods: Annotated[str, typer.Argument(help="A pattern of namespace/name.")],
    what: Annotated[str, typer.Argument(help="well, fail, slow=SECONDS, oom=SECONDS, never")],
    state: State = STATE,
) -> None:
    """Tell a cluster's simulated kubelet how pods behave."""
    with readable_errors():
        Bed.at(state).behave(name, pods, what)


def main() -> None:
    app()
