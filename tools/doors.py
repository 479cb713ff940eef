"""The pages of the reference about what answers: the daemon, the gate, and the desk behind it."""  # noqa: INP001

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from tables import code, table

from umbel.client import Client
from umbel.flower.routes import BY_PATH, OURS, Api, Route
from umbel.gate.config import Limits
from umbel.gate.desk import PAGES, Page
from umbel.server.api import Api as DaemonApi
from umbel.server.desk.api import DeskApi

GATE_INTRODUCTION = """\
Flower's routes, all `POST`, by the door that has them. Everything else is answered with 401, the
same for every stranger.
"""
DESK_INTRODUCTION = """\
On the control door of a hub that has a desk. Answers have the form of [the daemon's](http-api.md).
"""
HTTP_INTRODUCTION = """\
The daemon of one `UMBEL_HOME` listens on the Unix socket `run/umbel.sock` in it, mode 0600 in a
folder 0700: who owns the folder may speak. The `umbel` command uses nothing else.
"""
HTTP_NOTES = """\
*JSON lines*: one object a line while the work goes on. `up`, `down` and `scale` send
`{"progress": text}` lines, then one `{"result": ...}` or one `{"problem": ...}`. Who hangs up does
not stop the work.

An error is an [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problem with the members `type`,
`title`, `code`, `detail`, `hint` and `exit`: status 422 for U1xx, 404 for U3xx, 503 for the rest.
"""


_ANSWERED_BY = {"version": "pids", "start": "run", "run": "get_run"}  # a verb's name in the client


# The daemon's API


def http_page() -> str:
    """Describe every route of the daemon."""
    api = DaemonApi(*([None] * (len(inspect.signature(DaemonApi).parameters))))  # type: ignore[arg-type]
    rows = [row for route in api.app().routes for row in _route_rows(route)]
    columns = ["method", "path", "takes", "gives", "what it does"]
    return "\n".join(
        ["# The daemon's HTTP API\n", HTTP_INTRODUCTION, table(columns, rows), HTTP_NOTES]
    )


def _route_rows(route: Any) -> Iterator[tuple[str, ...]]:
    source = inspect.getsource(route.endpoint)
    verb = route.endpoint.__name__
    promise = route.endpoint.__doc__ or getattr(Client, _ANSWERED_BY.get(verb, verb)).__doc__
    takes = [f"`?{name}=`" for name in re.findall(r'query_params\.get\("(\w+)"', source)]
    if "_document(request)" in source:
        takes.insert(0, "the document as JSON")
    if keys := list(dict.fromkeys(re.findall(r'order\["(\w+)"\]', source))):
        takes.insert(0, f"JSON: {', '.join(map(code, keys))}")
    stream = "_stream(" in source or "_lines(" in source
    for method in sorted(route.methods - {"HEAD"}):
        answer = "JSON lines" if stream else "JSON"
        yield method, code(route.path), ", ".join(takes), answer, inspect.cleandoc(promise)


# The gate


def gate_page() -> str:
    """List Flower's routes, who may call them, and the gate's limits."""
    doors = {
        Api.FLEET: "Sites, by their key. A site signs the time of each call; the gate checks key,"
        " signature and clock before anything reaches the SuperLink.",
        Api.CONTROL: "People, by a token. The role is the least that the call needs.",
        Api.RUNTIME: "ServerApps and their executor, on loopback only. The gate checks the form of"
        " the credential, the SuperLink its content.",
    }
    parts = ["# The gate's routes\n", GATE_INTRODUCTION]
    for api, text in doors.items():
        columns = ["path", "least role", "since"] if api is Api.CONTROL else ["path", "since"]
        rows = [_gate_row(route) for route in BY_PATH[api].values()]
        parts += [f"## {api}\n", f"{text}\n", table(columns, rows)]
    rows = [(p.method, code(p.path), str(p.role), _promise(p)) for p in PAGES]
    columns = ["method", "path", "least role", "what it does"]
    parts += ["## Desk\n", DESK_INTRODUCTION, table(columns, rows)]
    rows = [(code(f.name), f"{f.default:g}") for f in fields(Limits)]
    parts += ["## Limits\n", "Sizes in bytes.\n", table(["limit", "value"], rows)]
    return "\n".join(parts)


def _promise(page: Page) -> str:
    verb = _ANSWERED_BY.get(page.name, page.name)
    return str(getattr(DeskApi, page.name).__doc__ or getattr(Client, verb).__doc__)


def _gate_row(route: Route) -> tuple[str, ...]:
    role = (str(route.role or "nobody"),) if route.api is Api.CONTROL else ()
    since = "Umbel's own" if route in OURS else f"Flower {route.since}"
    return (code(route.path), *role, since)
