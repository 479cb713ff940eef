"""Which packages the dependencies of an environment bring, by the names they are imported by."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from umbel.exec.environments import READY
from umbel.exec.needs import name_of


def declared_packages(environment: Path) -> frozenset[str]:
    """Give the top-level packages of what the app declares; not of what that brings along."""
    found: set[str] = set()
    with contextlib.suppress(OSError, ValueError, KeyError):
        for dependency in json.loads((environment / READY).read_text())["dependencies"]:
            with contextlib.suppress(PackageNotFoundError):
                found |= top_level(distribution(name_of(dependency)))
    return frozenset(found - {"flwr", "umbel"})


def top_level(installed: Distribution) -> set[str]:
    """Name what a distribution installs at the top."""
    listed = (installed.read_text("top_level.txt") or "").split()
    return named(listed or (str(file) for file in installed.files or ()))


def named(paths: Iterable[str]) -> set[str]:
    """Keep what can be imported, of names or paths of files."""
    firsts = {path.partition("/")[0] if "/" in path else path.removesuffix(".py") for path in paths}
    return {name for name in firsts if name.isidentifier() and not name.startswith("_")}
