"""umbel connect"""  # noqa: D400

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated

import typer

from umbel.cli import context
from umbel.cli.output import OfFederation, readable_errors, say
from umbel.errors import RequestError

EXAMPLES = """Examples:

  umbel connect ./flwr-home
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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(connect)


def connect(
    folder: Annotated[Path, typer.Argument(help="The FLWR_HOME to write.")],
    user: Annotated[str, typer.Option(help="Whose token to use.")] = "owner",
    federation: OfFederation = "",
) -> None:
    """Write a FLWR_HOME with which Flower's own `flwr` command works through the gate."""
    with readable_errors():
        import yaml

        from umbel.files import ensure_private_folder, write_private

        client = context.client()
        name = context.pick(client, federation)
        address = client.status(name)["endpoint"]["control"]
        root = context.home() / "federations" / name
        token_file = root / "users" / f"{user}.token"
        if not token_file.is_file():
            raise UserUnknown(user, sorted(p.stem for p in (root / "users").glob("*.token")))
        ensure_private_folder(folder)
        authority = folder.absolute() / f"{name}.crt"
        write_private(authority, (root / "ca" / "bundle.crt").read_bytes())
        label = "umbel" if name == "default" else name  # Flower's file has a key "default"
        write_private(folder / "config.toml", _config(label, address, authority))
        token = token_file.read_text().strip()
        write_private(folder / "credentials.yaml", yaml.safe_dump(_credentials(address, token)))
        say(f"wrote {folder}; to use it:\n")
        say(f"  export FLWR_HOME={folder.absolute()}")
        say(f"  flwr run APP {label} --stream")


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
