"""Notes what Flower's processes wait for, when TRACE_FILE is set: one line of JSON for each wait.

Found on PYTHONPATH by stock Flower's processes and by ours; nothing of Flower's is changed but that
three functions are timed.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

_PLACES = {
    "flwr.supercore.protobuf.client": "ProtobufClient._send",
    "flwr.clientapp.client_app": "ClientApp.__call__",
}
_SLEEPERS = ("start_client_internal", "http_grid", "run_superexec", "inflatable_utils", "naps")
_LEAST_S = 0.001
_process = {"started_s": time.time(), "told": False}
_import = builtins.__import__
_sleep = time.sleep


def note(kind: str, name: str, began_s: float) -> None:
    """Write one line; whole, since it is one write."""
    now_s = time.time()
    if now_s - began_s < _LEAST_S:
        return
    row = {"pid": os.getpid(), "kind": kind, "name": name, "from": began_s, "to": now_s}
    fd = os.open(os.environ["TRACE_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, json.dumps(row).encode() + b"\n")
    os.close(fd)


def timed(owner: Any, name: str, label: Callable[[tuple[Any, ...]], tuple[str, str]]) -> None:
    """Note each call of the method."""
    stock = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        began_s = time.time()
        if not _process["told"]:
            _process["told"] = True
            note("start", "process", float(_process["started_s"]))
        try:
            return stock(*args, **kwargs)
        finally:
            note(*label((*args, *kwargs.values())), began_s)

    setattr(owner, name, call)


def wrap(module: Any) -> None:
    """Time what a module of Flower's holds."""
    if module.__name__.endswith("protobuf.client"):
        timed(module.ProtobufClient, "_send", lambda args: ("request", args[1].request.url.path))
    else:
        timed(module.ClientApp, "__call__", lambda _: ("app", "ClientApp"))


def importing(name: str, *args: Any, **kwargs: Any) -> Any:
    """Import, and wrap what has just come."""
    found = _import(name, *args, **kwargs)
    for known in [k for k in _PLACES if k in sys.modules]:
        module = sys.modules[known]
        owner = getattr(module, _PLACES[known].partition(".")[0], None)
        if owner is not None:
            del _PLACES[known]
            wrap(module)
    return found


def sleeping(seconds: float) -> None:
    """Sleep, and note who did."""
    began_s = time.time()
    _sleep(seconds)
    caller = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001
    if str(caller).endswith(_SLEEPERS):
        note("sleep", str(caller).rpartition(".")[2], began_s)


def forked() -> None:
    """A child of a warm parent starts when it is forked."""
    _process.update(started_s=time.time(), told=False)


if os.environ.get("TRACE_FILE"):
    os.register_at_fork(after_in_child=forked)
    builtins.__import__ = importing
    time.sleep = sleeping  # type: ignore[assignment]
