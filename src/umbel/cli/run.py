"""umbel run"""  # noqa: D400

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from umbel.cli import context
from umbel.cli.follow import Follower
from umbel.cli.output import AsOutput, OfFederation, Output, readable_errors, say, show_data
from umbel.errors import RequestError

EXAMPLES = """Examples:

  umbel run                                the built-in quickstart app
  umbel run ./my-app                       any Flower app, unchanged
  umbel run ./my-app -c num-server-rounds=10 -c learning-rate=0.05
  umbel run ./my-app --detach              submit and return at once

Ctrl-C leaves the run going; --stop-on-exit stops it. Exit status: 0 the run completed, 1 it failed,
3 it was stopped, 2 it could not be submitted.
"""
FEW_NODES = 2


class ConfigInvalid(RequestError):
    """A --config value cannot be read."""

    code = "U313"

    def __init__(self, text: str) -> None:
        super().__init__(
            f"--config {text!r} is not KEY=VALUE",
            hint="for example: -c num-server-rounds=5 -c name='a text'",
        )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(run)


def run(
    app: Annotated[
        Path | None, typer.Argument(help="The app's folder; left out: the quickstart app.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="KEY=VALUE of the run's config.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--detach", help="Watch the rounds, or return at once.")
    ] = True,
    stop_on_exit: Annotated[
        bool, typer.Option("--stop-on-exit", help="Ctrl-C stops the run instead of leaving it.")
    ] = False,
    federation: OfFederation = "",
    output: AsOutput = Output.TEXT,
) -> None:
    """Build the app, submit it, follow its rounds. The exit status is the run's."""
    with readable_errors():
        values = read_config(config or [])
        client, name = context.choose(federation)
        folder = (app or _quickstart()).expanduser().absolute()
        started = client.run(name, folder, values)
        try:
            say(f"run {started['run_id']} of {started['app']} submitted to {name}")
            if not follow:
                if output is not Output.TEXT:
                    show_data(started, output)
                raise typer.Exit(0)
            follower = Follower(client, name, started["run_id"], quiet=output is not Output.TEXT)
            ended = follower.watch()
        except KeyboardInterrupt:
            _leave(client, name, started["run_id"], stop=stop_on_exit)
            raise typer.Exit(130) from None
        follower.show_result(ended, output)
        if app is None and output is Output.TEXT:
            say("\nThat was the quickstart app. To go on:")
            say("  umbel init my-app   writes it into a folder of yours, with a federation.yaml")
            say("  umbel run my-app    runs it; umbel pull RUN fetches the model")
        raise typer.Exit(follower.exit_status(ended))


def read_config(pairs: list[str]) -> dict[str, Any]:
    """Read KEY=VALUE pairs; values are numbers, true, false or texts."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip():
            raise ConfigInvalid(pair)
        values[key.strip()] = _value(text.strip())
    return values


def _value(text: str) -> Any:
    try:
        value = tomllib.loads(f"v = {text}")["v"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, str | int | float | bool) else text


def _quickstart() -> Path:
    from umbel.apps import quickstart
    from umbel.files import ensure_private_folder

    apps = ensure_private_folder(context.home() / "apps")
    folder = apps / f"quickstart-{quickstart.fingerprint()}"
    quickstart.write(folder)
    return folder


def _leave(client: Any, name: str, run_id: str, *, stop: bool) -> None:
    if stop:
        ended = client.stop(name, run_id)
        say(f"\nrun {run_id}: {ended['status']}")
    else:
        say(
            f"\nrun {run_id} goes on. umbel logs {run_id} -f follows it, umbel stop {run_id} ends it"
        )
