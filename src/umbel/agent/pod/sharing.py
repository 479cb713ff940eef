"""What executors in other pods of the site need to reach its SuperNode: made here, and kept here.

The certificate and the secrets are in a Secret of the site's own cluster, so that they outlive the
pod. An environment's executor mounts the certificate and its own secret, and nothing else of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from umbel.agent.pod import places as names
from umbel.agent.pod.places import Places
from umbel.files import write_private
from umbel.flower.environments import Served, all_served
from umbel.identity import alone, tokens

OBJECT = "umbel-runtime"  # the Secret
SERVICE = "umbel-node"  # what the executors dial
TRUST = "ca.crt"
_MASTER = "runtime.secret"
_FILES = ("runtime.ca", "runtime.crt", "runtime.key", _MASTER)


class KeepsSecrets(Protocol):
    """What is asked of the site's cluster."""

    namespace: str

    def secret(self, name: str) -> dict[str, bytes] | None: ...
    def save_secret(self, name: str, content: Mapping[str, bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class Shared:
    """The Runtime API's certificate, and who besides the pod's own executor may take tasks."""

    tls: alone.Alone
    served: dict[str, Served] = field(repr=False)

    @property
    def host(self) -> str:
        """Where the SuperNode listens: for its own pod alone, unless somebody else is to come."""
        return "0.0.0.0" if self.served else "127.0.0.1"  # noqa: S104  # policies close it


def secret_key(environment: str) -> str:
    """Name an environment's secret in the Secret."""
    return f"{environment}.secret"


def hosts(namespace: str) -> list[str]:
    """List what the SuperNode is called in its pod and in its cluster."""
    inside = f"{SERVICE}.{namespace}.svc"
    return ["localhost", "127.0.0.1", SERVICE, inside, f"{inside}.cluster.local"]


def settle(places: Places, account: KeepsSecrets) -> Shared:
    """Have the certificate and the secrets; where environments are declared, the Secret too."""
    folder, apps = places.own(names.KEYS), declared(places)
    held = (account.secret(OBJECT) or {}) if apps else {}
    if all(held.get(name) for name in _FILES) and not (folder / _MASTER).exists():
        for name in _FILES:
            write_private(folder / name, held[name])
    tls = alone.ensure(folder, "runtime", hosts(account.namespace), now=datetime.now(UTC))
    master = tokens.ensure_secret(folder / _MASTER).read_bytes()
    served = all_served(master, apps)
    if apps:
        wanted = _content(folder, served)
        if wanted != held:
            account.save_secret(OBJECT, wanted)
    return Shared(tls, served)


def _content(folder: Path, served: dict[str, Served]) -> dict[str, bytes]:
    kept = {name: (folder / name).read_bytes() for name in _FILES}
    given = {secret_key(name): one.secret for name, one in served.items()}
    return {**kept, **given, TRUST: kept["runtime.ca"]}


def declared(places: Places) -> dict[str, str]:
    """Read which environments are declared: names to apps."""
    try:
        found: dict[str, str] = json.loads(places.config("environments").read_text())
    except (OSError, ValueError):
        return {}
    return found
