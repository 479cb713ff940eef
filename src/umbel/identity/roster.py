"""Which key is which site: the gate's list, in one JSON file.

`{"<fingerprint>": {"site": "<name>"}}`. A name belongs to one key and a key to one name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from umbel.errors import SecurityError
from umbel.identity import disk

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_FILE = TypeAdapter(dict[str, dict[str, str]])


class SiteBound(SecurityError):
    """The site's name belongs to another key."""

    code = "U413"

    def __init__(self, name: str, held: str, offered: str) -> None:
        super().__init__(
            f"site {name!r} has the key {held[:16]}…, and {offered[:16]}… was offered",
            hint="if the site lost its key, revoke it first; if not, somebody else uses its name",
        )


class KeyBound(SecurityError):
    """The key belongs to another site."""

    code = "U414"

    def __init__(self, fingerprint: str, held: str, offered: str) -> None:
        super().__init__(
            f"the key {fingerprint[:16]}… belongs to site {held!r}, not to {offered!r}",
            hint="a copied machine brings its key along: remove node.key there and enrol again",
        )


class RosterDamaged(SecurityError):
    """The list of sites cannot be read."""

    code = "U415"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not a list of sites",
            hint="restore it from a backup, or remove it: `umbel up` enrols the sites again",
        )


@dataclass(frozen=True, slots=True)
class Roster:
    """The sites that the gate lets in."""

    path: Path

    def sites(self) -> dict[str, str]:
        """Give every site's fingerprint."""
        return {name: fingerprint for fingerprint, name in self._load().items()}

    def add(self, name: str, fingerprint: str) -> bool:
        """Bind the name to the key; say whether that was new."""
        return self.add_all({name: fingerprint})

    def add_all(self, sites: Mapping[str, str]) -> bool:
        """Bind all names (to fingerprints) or none; say whether any was new."""
        with disk.locked(self.path.parent):
            return self._store(_bound(self._load(), sites))

    def replace(self, sites: Mapping[str, str]) -> bool:
        """Let in exactly these (names to fingerprints), others no more; say whether it changed."""
        with disk.locked(self.path.parent):
            return self._store(_bound({}, sites))

    def remove(self, name: str) -> bool:
        """Revoke the site: its key is a stranger's, its name is free. Says whether it was there."""
        with disk.locked(self.path.parent):
            held = self._load()
            return self._store({f: n for f, n in held.items() if n != name})

    def _load(self) -> dict[str, str]:
        content = disk.read_private(self.path)
        if content is None:
            return {}
        try:
            held = {f: entry["site"] for f, entry in _FILE.validate_json(content).items()}
        except (ValidationError, KeyError) as error:
            raise RosterDamaged(self.path) from error
        if len(set(held.values())) != len(held) or not all(map(_FINGERPRINT.fullmatch, held)):
            raise RosterDamaged(self.path)
        return held

    def _store(self, held: Mapping[str, str]) -> bool:
        entries = {f: {"site": name} for f, name in sorted(held.items(), key=lambda e: e[1])}
        if not entries and not self.path.exists():
            return False
        return disk.write_changed(self.path, json.dumps(entries, indent=1).encode() + b"\n")


def _bound(held: Mapping[str, str], sites: Mapping[str, str]) -> dict[str, str]:
    """Add names to keys, each only where neither belongs to another."""
    names, keys = {name: key for key, name in held.items()}, dict(held)
    for name, fingerprint in sites.items():
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise ValueError(f"{fingerprint!r} is not a SHA-256 in hex")
        if names.setdefault(name, fingerprint) != fingerprint:
            raise SiteBound(name, names[name], fingerprint)
        if keys.setdefault(fingerprint, name) != name:
            raise KeyBound(fingerprint, keys[fingerprint], name)
    return keys
