"""Which home, which federation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from umbel.client import Client, Conversation, NothingRuns
from umbel.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from umbel.cli.connections import Connection
    from umbel.model.federation import Federation


class FederationAmbiguous(RequestError):
    """There are several federations and none was named."""

    code = "U329"

    def __init__(self, known: list[str]) -> None:
        super().__init__(
            f"there are several federations: {', '.join(known)}",
            hint="say which with --federation NAME, or set UMBEL_FEDERATION",
        )


class HomeUnusable(RequestError):
    """UMBEL_HOME has a character that Flower's database address cannot have."""

    code = "U341"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"UMBEL_HOME {path} has a ? or # in it, which Flower's database address cannot have",
            hint="set UMBEL_HOME to a folder without them",
        )


class KeptElsewhere(RequestError):
    """The federation is not on this machine, and what was asked is done where it is kept."""

    code = "U392"

    def __init__(self, name: str, address: str, hint: str) -> None:
        super().__init__(
            f"{name} is not kept on this machine: it is a federation elsewhere, at {address}",
            hint=hint,
        )


def home() -> Path:
    """Find UMBEL_HOME: as set, else where XDG says that data goes."""
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    found = Path(os.environ.get("UMBEL_HOME") or f"{data}/umbel").expanduser().absolute()
    if "?" in str(found) or "#" in str(found):
        raise HomeUnusable(found)
    return found


def client() -> Client:
    """Speak to the daemon, which is started again if it was killed."""
    found = Client(home())
    if not found.running() and found.left_behind():
        found.start()
    return found


def pick(found: Client, named: str) -> str:
    """Give the named federation, else the only one."""
    if named:
        return named
    known = [str(f["metadata"]["name"]) for f in found.federations()]
    if not known:
        raise NothingRuns
    if len(known) > 1:
        raise FederationAmbiguous(known)
    return known[0]


def choose(named: str) -> tuple[Conversation, str]:
    """Find the named federation, else the only one, here or elsewhere; gives who to ask about it."""
    elsewhere = _elsewhere()
    if not elsewhere:
        found = client()
        return found, pick(found, named)
    local = names_here()
    known = [*local, *(name for name in elsewhere if name not in local)]
    if not named and len(known) > 1:
        raise FederationAmbiguous(known)
    name = named or known[0]
    _assert_known(name, known)
    if name in elsewhere and name not in local:
        return _connected(name)
    return client(), name


def here(named: str, hint: Callable[[Connection], str]) -> tuple[Client, str]:
    """Find the named federation, else the only one, on this machine; gives who keeps it.

    One elsewhere is refused: `hint` says what to do there instead.
    """
    elsewhere = _elsewhere()
    local = names_here() if elsewhere else []
    if named and elsewhere:
        _assert_known(named, [*local, *elsewhere])
    far = [name for name in elsewhere if name == named or not (named or local)]
    if len(far) > 1:
        raise FederationAmbiguous(far)
    if far and far[0] not in local:
        from umbel.cli.connections import Connections

        found = Connections(home()).load(far[0])
        raise KeptElsewhere(far[0], found.remote.address, hint(found))
    keeper = client()
    return keeper, pick(keeper, named)


def _assert_known(name: str, known: Sequence[str]) -> None:
    if name not in known:
        from umbel.engine.engine import FederationUnknown

        raise FederationUnknown(name, known)


def names_here() -> list[str]:
    """Name the federations that are kept on this machine."""
    try:
        return [str(f["metadata"]["name"]) for f in client().federations()]
    except NothingRuns:
        return []


def _elsewhere() -> list[str]:
    folder = home() / "connections"
    if not folder.is_dir():
        return []
    from umbel.cli.connections import Connections

    return Connections(home()).names()


def _connected(name: str) -> tuple[Conversation, str]:
    from umbel.cli.connections import Connections
    from umbel.remote import RemoteClient

    found = Connections(home()).load(name)
    return RemoteClient(found.remote), found.federation


def read_document(file: Path | None) -> Federation:
    """Read the file; without one, take federation.yaml here, else three local sites."""
    from umbel.documents import default_federation, load_file

    if file is None and Path("federation.yaml").is_file():
        file = Path("federation.yaml")
    return default_federation() if file is None else load_file(file)
