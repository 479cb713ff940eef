"""The identities of many sites of one machine at once, as a local federation needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from umbel.identity import disk, leaves, node_keys
from umbel.identity.authority import Authority

SERVER = "server"  # server.key and server.crt, for the SuperNode's own Runtime API
LOOPBACK = ("localhost", "127.0.0.1")
_AT_ONCE = 64  # folders locked together; each costs a file descriptor


@dataclass(frozen=True, slots=True)
class SiteIdentity:
    """A site's key, and its server certificate."""

    node: node_keys.NodeKey
    server: leaves.Leaf


def ensure_sites(
    authority: Authority,
    folders: Mapping[str, Path],
    *,
    now: datetime,
    days: int,
    names: Sequence[str] = LOOPBACK,
) -> dict[str, SiteIdentity]:
    """Leave a good identity in every site's folder; what is good stays as it is."""
    wanted = leaves.Wanted(tuple(names), now, days)
    # Always in the same order: two that do this at once must not wait for each other.
    ordered = sorted(folders.items(), key=lambda entry: entry[1])
    made: dict[str, SiteIdentity] = {}
    for start in range(0, len(ordered), _AT_ONCE):
        made |= _ensure_some(authority, dict(ordered[start : start + _AT_ONCE]), wanted)
    return made


def _ensure_some(
    authority: Authority, folders: Mapping[str, Path], wanted: leaves.Wanted
) -> dict[str, SiteIdentity]:
    made: dict[str, SiteIdentity] = {}
    files: dict[Path, bytes] = {}
    with ExitStack() as locks:
        for name, folder in folders.items():
            locks.enter_context(disk.locked(folder))
            node, node_files = node_keys.prepare(folder)
            server, server_files = leaves.prepare(authority, folder, SERVER, wanted)
            made[name] = SiteIdentity(node, server)
            files |= node_files | server_files
        disk.write_all(files)
    return made
