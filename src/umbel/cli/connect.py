"""umbel connect"""  # noqa: D400

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated

import typer

from umbel.cli import context
from umbel.cli.output import OfFederation, readable_errors, say
from umbel.client import Conversation
from umbel.errors import RequestError

OWNER = "owner"
EXAMPLES = """Examples:

  umbel connect hospitals --address fl.example.org:9093 --ca ca.crt --token-file omar.token
  umbel status -n hospitals        from now on, every command knows it
  umbel connect hospitals --forget   only here; the federation goes on

  umbel connect ./flwr-home        for Flower's own command line:
  export FLWR_HOME=$PWD/flwr-home
  flwr run ./my-app local --stream
  flwr ls local
"""


class UserUnknown(RequestError):
    """The federation has no such user."""

    code = "U315"

    def __init__(self, user: str, known: list[str]) -> None:
        super().__init__(
            f"there is no user {user!r}",
            hint=f"users: {', '.join(known)}; more are declared in spec.security.users",
        )


class TokenNotHere(RequestError):
    """Of a federation elsewhere this machine has one token, and it cannot be chosen by name."""

    code = "U394"

    def __init__(self, user: str, federation: str) -> None:
        super().__init__(
            f"the token of {user!r} is not on this machine: {federation} is elsewhere",
            hint="leave --user out, or connect with that token: umbel connect NAME --token-file FILE",
        )


class ConnectionIncomplete(RequestError):
    """A connection needs a name, an address, a CA certificate and a token."""

    code = "U359"

    def __init__(self, fact: str) -> None:
        super().__init__(
            f"this is no connection: {fact}",
            hint="umbel connect NAME --address HOST:PORT --ca FILE --token-file FILE",
        )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(connect)


def connect(
    what: Annotated[
        str,
        typer.Argument(help="A name for the federation at --address; else a FLWR_HOME to write."),
    ],
    address: Annotated[
        str, typer.Option(help="HOST:PORT of a federation's control door.", show_default=False)
    ] = "",
    ca: Annotated[Path | None, typer.Option(help="Its CA certificate.", show_default=False)] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with your token.", show_default=False)
    ] = None,
    user: Annotated[str, typer.Option(help="Whose token to write to a FLWR_HOME.")] = OWNER,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget the federation elsewhere of this name.")
    ] = False,
    federation: OfFederation = "",
) -> None:
    """Make a federation elsewhere known here; or write a FLWR_HOME for Flower's own `flwr`."""
    with readable_errors():
        if forget:
            _forget(what)
        elif address or ca or token_file:
            _store(what, address, ca, token_file)
        else:
            _write_home(Path(what), user, federation)


def _store(name: str, address: str, ca: Path | None, token_file: Path | None) -> None:
    """Try it, then keep it: what is stored has worked once."""
    from umbel.cli.connections import Connection, Connections, is_name
    from umbel.remote import Remote, RemoteClient

    if not address or ca is None or token_file is None:
        raise ConnectionIncomplete("--address, --ca and --token-file belong together")
    if not is_name(name):
        raise ConnectionIncomplete(f"{name!r} is not a name of lower-case letters, digits and -")
    if (context.home() / "federations" / name).exists():
        raise ConnectionIncomplete(f"{name} is the name of a federation on this machine")
    remote = Remote(address, ca, token_file)
    there = _only_federation(RemoteClient(remote), address)
    Connections(context.home()).store(name, Connection(remote, there))
    say(f"{name} is known now: the federation {there} at {address}")
    say(f"next: umbel status -n {name}, umbel run APP -n {name}")


def _forget(name: str) -> None:
    from umbel.cli.connections import Connections

    known = Connections(context.home())
    if not known.forget(name):
        from umbel.engine.engine import FederationUnknown

        raise FederationUnknown(name, known.names())
    say(f"{name} is not known here any more; nothing changed where it is")


def _only_federation(client: Conversation, address: str) -> str:
    from umbel.gate.refusals import AnswerOdd

    try:
        return str(client.federations()[0]["metadata"]["name"])
    except (LookupError, TypeError) as error:
        raise AnswerOdd(address, "it names no federation") from error


def _write_home(folder: Path, user: str, federation: str) -> None:
    import yaml

    from umbel.files import ensure_private_folder, write_private

    name, address, trusted, token = _way_in(user, federation)
    ensure_private_folder(folder)
    authority = folder.absolute() / f"{name}.crt"
    write_private(authority, trusted)
    label = "umbel" if name == "default" else name  # Flower's file has a key "default"
    write_private(folder / "config.toml", _config(label, address, authority))
    write_private(folder / "credentials.yaml", yaml.safe_dump(_credentials(address, token)))
    say(f"wrote {folder}; to use it:\n")
    say(f"  export FLWR_HOME={folder.absolute()}")
    say(f"  flwr run APP {label} --stream")


def _way_in(user: str, federation: str) -> tuple[str, str, bytes, str]:
    """Give a federation's name, address, authority and the token to use there."""
    from umbel.remote import RemoteClient

    client, name = context.choose(federation)
    if isinstance(client, RemoteClient):
        remote = client.remote
        if user != OWNER:
            raise TokenNotHere(user, name)
        return name, remote.address, remote.ca.read_bytes(), remote.token()
    root = context.home() / "federations" / name
    token_file = root / "users" / f"{user}.token"
    address = client.status(name)["endpoint"]["control"]
    if not token_file.is_file():
        raise UserUnknown(user, sorted(p.stem for p in (root / "users").glob("*.token")))
    return name, address, (root / "ca" / "bundle.crt").read_bytes(), token_file.read_text().strip()


def _config(name: str, address: str, authority: Path) -> str:
    return (
        f'[superlink]\ndefault = "{name}"\n\n[superlink.{name}]\naddress = "{address}"\n'
        f'root-certificates = "{authority}"\ninsecure = false\n'
    )


def _credentials(address: str, token: str) -> dict[str, str]:
    """Say what Flower's command line stores after a login, so that it sends the token."""
    values = {"authn-type": "oidc", "oidc-access-token": token, "oidc-refresh-token": token}
    return {
        f"flower.account-auth.{address}.{key}": base64.b64encode(value.encode()).decode()
        for key, value in values.items()
    }
