"""Flower's HTTP routes and who may call them. Data only; nothing of Flower is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from umbel.model.role import Role

FIRST, LATEST = "1.40", "1.41"


class Api(StrEnum):
    """The three parts of a SuperLink's interface."""

    FLEET = "fleet"
    CONTROL = "control"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class Route:
    """One call. `role` is the least a person needs; a Control route without one is for nobody."""

    api: Api
    name: str
    role: Role | None = None
    since: str = FIRST

    @property
    def path(self) -> str:
        """The exact path, as Flower spells it."""
        return f"/v1/{self.api}/{self.name}"

    @property
    def title(self) -> str:
        """How the audit log names it."""
        return f"{self.api}/{self.name}"


_FLEET = (
    "register-node",
    "activate-node",
    "deactivate-node",
    "unregister-node",
    "send-node-heartbeat",
    "pull-messages",
    "push-messages",
    "get-run",
    "get-fab",
    "push-object",
    "pull-object",
    "confirm-message-received",
)

_RUNTIME = (
    "acquire-task",
    "send-task-heartbeat",
    "pull-task-input",
    "push-task-output",
    "push-messages",
    "pull-messages",
    "push-object",
    "pull-object",
    "confirm-message-received",
    "push-logs",
    "get-nodes",
    "create-task",
    "push-task-message",
    "pull-task-message",
    "push-task-events",
    "record-task-usage",
    "get-connector",
    "get-run-series-events",
    "start-automation",
    "responses",
)

_RUNTIME_SINCE_1_41 = ("get-compacted-contexts", "put-compacted-context")

_CONTROL: Mapping[Role | None, tuple[str, ...]] = {
    Role.VIEWER: (
        "list-runs",
        "list-run-series",
        "get-run-series",
        "list-run-series-events",
        "stream-logs",
        "stream-run-events",
        "list-nodes",
        "list-apps",
        "list-app-associations",
        "list-automations",
        "list-connectors",
        "list-federations",
        "show-federation",
        "list-invitations",
    ),
    Role.OPERATOR: (
        "start-run",
        "stop-run",
        "pull-artifacts",
        "update-run-series-description",
        "start-automation",
        "stop-automation",
    ),
    Role.ADMIN: (
        "register-node",
        "unregister-node",
        "add-app",
        "remove-app",
        "disconnect-connector",
        "begin-connector-oauth",
        "complete-connector-oauth",
        "set-federation-icon",
        "create-federation",
        "archive-federation",
        "add-node-to-federation",
        "remove-node-from-federation",
        "remove-account-from-federation",
        "configure-simulation-federation",
        "create-invitation",
        "accept-invitation",
        "reject-invitation",
        "revoke-invitation",
    ),
    # Flower's own login: Umbel gives tokens by file, nobody is to be sent through a browser.
    None: ("get-login-details", "get-auth-tokens", "refresh-auth-tokens"),
}

ROUTES: tuple[Route, ...] = (
    *(Route(Api.FLEET, name) for name in _FLEET),
    *(Route(Api.RUNTIME, name) for name in _RUNTIME),
    *(Route(Api.RUNTIME, name, since="1.41") for name in _RUNTIME_SINCE_1_41),
    *(Route(Api.CONTROL, name, role) for role, names in _CONTROL.items() for name in names),
)

# Ours, beside Flower's: several objects in one request, for who may send each of them alone.
# On Control the only thing that comes in batches is registering nodes, which an admin may do.
OURS = (
    Route(Api.FLEET, "umbel-batch"),
    Route(Api.RUNTIME, "umbel-batch"),
    Route(Api.CONTROL, "umbel-batch", Role.ADMIN),
)

BY_PATH: Mapping[Api, Mapping[str, Route]] = MappingProxyType(
    {api: MappingProxyType({r.path: r for r in (*ROUTES, *OURS) if r.api is api}) for api in Api}
)


def paths(api: Api, minor: str = LATEST) -> frozenset[str]:
    """Give the paths of an API as the Flower release `minor` (such as "1.41") has them."""
    wanted = _number(minor)
    return frozenset(r.path for r in ROUTES if r.api is api and _number(r.since) <= wanted)


def _number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split("."))
