"""umbel simulate"""  # noqa: D400

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from umbel.cli.follow import Follower, Words
from umbel.cli.output import AsOutput, Output, readable_errors, say
from umbel.cli.run import read_config

if TYPE_CHECKING:
    from umbel.cli.simulated import Simulated
    from umbel.exec.simulation import Order

EXAMPLES = """Examples:

  umbel simulate                           the built-in quickstart app, three nodes
  umbel simulate ./my-app --nodes 50       any Flower app, unchanged; umbel run takes the same
  umbel simulate ./my-app --nodes 50 -c num-server-rounds=10 --save results

Needs umbel[simulation]. Nothing is sent to sites, no federation is needed. Exit status: 0 it
completed, 1 it failed, 2 it could not be started.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(simulate)


def simulate(
    app: Annotated[
        Path | None, typer.Argument(help="The app's folder; left out: the quickstart app.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=100_000, help="How many.")] = 3,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="KEY=VALUE of the run's config.")
    ] = None,
    cpus: Annotated[
        float, typer.Option("--cpus", min=0.01, help="Cores for each node at work.")
    ] = 1.0,
    gpus: Annotated[float, typer.Option("--gpus", min=0.0, help="GPUs for each.")] = 0.0,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Keep model, metrics, log and the app's files here."),
    ] = None,
    output: AsOutput = Output.TEXT,
) -> None:
    """Run an app with simulated nodes on this machine, in Flower's simulation runtime."""
    with readable_errors():
        from umbel.cli.simulated import Simulated, private_folder
        from umbel.exec.simulation import Order
        from umbel.flower import simulation

        simulation.require_ray(cpus)
        values = read_config(config or [])
        place = private_folder()
        job = simulation.Job(_folder_of(app, place), place, nodes, cpus, gpus)
        order = Order(job, values, simulation.new_run_id())
        with Simulated(order) as simulated:
            raise typer.Exit(_follow(simulated, order, save, output))


def _folder_of(app: Path | None, place: Path) -> Path:
    if app is not None:
        return app.expanduser().absolute()
    from umbel.apps import quickstart

    quickstart.write(place / quickstart.NAME)
    return place / quickstart.NAME


def _follow(simulated: Simulated, order: Order, save: Path | None, output: Output) -> int:
    quiet = output is not Output.TEXT
    say(f"simulating {order.job.app.name} with {order.job.nodes} nodes")
    kept = f"kept: {save}" if save else "--save FOLDER keeps the model, the metrics and the log"
    words = Words(f"simulation of {order.job.app.name}", kept, kept)
    follower = Follower(simulated, "", str(order.run_id), quiet=quiet, words=words)
    ended = follower.watch()
    follower.show_result(ended, output)
    if save is not None:
        simulated.save(save)
    elif left := simulated.left_files:
        say(f"the app wrote {len(left)} files, which are gone now; --save FOLDER keeps them")
    return follower.exit_status(ended)
