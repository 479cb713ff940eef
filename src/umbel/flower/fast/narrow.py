"""Shows a run the sites that have its app's environment, and no others.

Flower has no labels on nodes: every run sees every node. An app whose environment is sent to some
sites alone would wait at the others for an executor that never comes.
"""

from __future__ import annotations

import functools
import json
from importlib import import_module
from pathlib import Path
from typing import Any


class Sites:
    """Which sites can run an app, as a file says; apps that are not in it run everywhere."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = (0, 0)
        self._known: dict[str, frozenset[str]] = {}

    def now(self) -> dict[str, frozenset[str]]:
        """Give the sites by app, as they are now."""
        try:
            seen = self._path.stat()
            stamp = (seen.st_mtime_ns, seen.st_ino)
            if stamp != self._stamp:
                found = json.loads(self._path.read_text())
                self._known = {name: frozenset(sites) for name, sites in found.items()}
                self._stamp = stamp
        except FileNotFoundError:
            self._known, self._stamp = {}, (0, 0)
        return self._known


def install(path: Path) -> None:
    """Narrow what this SuperLink's runs see."""
    handlers: Any = import_module("flwr.superlink.servicer.runtime.runtime_handlers")
    handlers.get_nodes = _narrowed(handlers.get_nodes, Sites(path))


def _narrowed(stock: Any, sites: Sites) -> Any:
    @functools.wraps(stock)
    def get_nodes(request: Any, state: Any, task: Any) -> Any:
        answer, by_app = stock(request, state, task), sites.now()
        if not by_app:
            return answer
        app = next((str(run.fab_id) for run in state.get_run_info(run_ids=[task.run_id])), "")
        if app not in by_app:
            return answer
        return type(answer)(nodes=[node for node in answer.nodes if node.name in by_app[app]])

    return get_nodes
