"""How an executor that serves one app's environment makes itself known to a SuperNode."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

HEADER = "umbel-environment"  # on acquire-task: whose secret the request is signed with


@dataclass(frozen=True, slots=True)
class Served:
    """An environment that executors of their own serve."""

    app: str  # publisher/name: whose tasks go to them, and to nobody else
    secret: bytes = field(repr=False)


def secret_of(master: bytes, name: str) -> bytes:
    """Give an environment's secret; who has it learns neither the master nor another one's."""
    return hmac.new(master, f"environment/{name}".encode(), hashlib.sha256).digest()


def all_served(master: bytes, apps: Mapping[str, str]) -> dict[str, Served]:
    """Give the environments with their secrets, from their names and apps."""
    return {name: Served(app, secret_of(master, name)) for name, app in apps.items()}
