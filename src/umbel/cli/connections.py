"""Federations elsewhere that this home knows: an address, a CA certificate and a token each."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from umbel.files import ensure_private_folder, write_private
from umbel.remote import ConnectionDamaged, Remote

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SETTINGS, _CA, _TOKEN = "connection.json", "ca.crt", "token"


@dataclass(frozen=True, slots=True)
class Connection:
    """One federation elsewhere; `federation` is its name there."""

    remote: Remote
    federation: str
    namespace: str = ""  # on its hub, where that is known

    @property
    def in_namespace(self) -> str:
        """What kubectl is told to find it."""
        return f"-n {self.namespace} " if self.namespace else "-n NAMESPACE "


class Connections:
    """What `umbel connect` stored."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "connections"

    def names(self) -> list[str]:
        """Name them all."""
        return sorted(path.parent.name for path in self._folder.glob(f"*/{_SETTINGS}"))

    def load(self, name: str) -> Connection:
        """Read one that is there."""
        folder = self._folder / name
        path = folder / _SETTINGS
        try:
            data = json.loads(path.read_bytes())
            address, federation = str(data["address"]), str(data["federation"])
            namespace = str(data.get("namespace") or "")
        except OSError as error:
            raise ConnectionDamaged(path, error.strerror or "cannot be read") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConnectionDamaged(path, "it is not of the expected form") from error
        return Connection(Remote(address, folder / _CA, folder / _TOKEN), federation, namespace)

    def store(self, name: str, connection: Connection) -> Path:
        """Keep copies of all that it needs; gives the folder."""
        folder = ensure_private_folder(self._folder / name)
        write_private(folder / _CA, connection.remote.ca.read_bytes())
        write_private(folder / _TOKEN, connection.remote.token() + "\n")
        settings = {"address": connection.remote.address, "federation": connection.federation}
        if connection.namespace:
            settings["namespace"] = connection.namespace
        write_private(folder / _SETTINGS, json.dumps(settings, indent=1) + "\n")
        return folder

    def forget(self, name: str) -> bool:
        """Remove what was kept; False when there was nothing."""
        folder = self._folder / name
        if not is_name(name) or not folder.is_dir():
            return False
        shutil.rmtree(folder)
        return True


def is_name(name: str) -> bool:
    """Whether a connection may be called so."""
    return bool(_NAME.fullmatch(name))
