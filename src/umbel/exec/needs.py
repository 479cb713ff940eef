"""What an app needs to run: its dependencies and the modules it imports. Pure."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(.*)", re.DOTALL)
_KEY_LENGTH = 24


class FabUnreadable(ValueError):
    """The bundle does not say what it needs."""


@dataclass(frozen=True, slots=True)
class Needs:
    """An app's dependencies, in one spelling, and the modules that it imports and has."""

    dependencies: tuple[str, ...]
    imports: tuple[str, ...] = ()
    own: tuple[str, ...] = ()  # top-level modules of the app itself


def read_needs(fab: bytes) -> Needs:
    """Read a bundle's dependencies and imports, without running anything of it."""
    try:
        with zipfile.ZipFile(io.BytesIO(fab)) as bundle:
            project = tomllib.loads(bundle.read("pyproject.toml").decode())["project"]
            sources = {n: bundle.read(n) for n in bundle.namelist() if n.endswith(".py")}
        listed = project.get("dependencies", [])
        own = {name.partition("/")[0].removesuffix(".py") for name in sources}
        foreign = {n for n in imported(sources.values()) if n.partition(".")[0] not in own}
        return Needs(
            tuple(sorted({normalise(_plain(str(dependency))) for dependency in listed})),
            tuple(sorted(foreign)),
            tuple(sorted(own)),
        )
    except (zipfile.BadZipFile, KeyError, TypeError, AttributeError, ValueError) as error:
        raise FabUnreadable(f"the app's pyproject.toml cannot be read: {error}") from error


def _plain(dependency: str) -> str:
    """Refuse what the builder would take for an option, a file or a further line."""
    if not re.match(r"\s*[A-Za-z0-9]", dependency) or not dependency.isprintable():
        raise ValueError(f"{dependency!r} is not a dependency")
    return dependency


def normalise(dependency: str) -> str:
    """Write a dependency so that two spellings of the same one are equal."""
    found = _NAME.fullmatch(dependency)
    if found is None:
        return dependency.strip()
    name, extras, rest = found.groups()
    version, sign, marker = rest.partition(";")
    named = _canonical(name)
    if extras:
        named += f"[{','.join(sorted(_canonical(e) for e in extras[1:-1].split(',')))}]"
    if not version.lstrip().startswith("@"):
        version = ",".join(sorted(re.sub(r"[\s()]", "", version).split(",")))
    return f"{named}{version.strip()}{' ; ' + marker.strip() if sign else ''}"


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def name_of(dependency: str) -> str:
    """Give the distribution that a dependency asks for."""
    found = _NAME.fullmatch(dependency)
    return _canonical(found[1]) if found else ""


def environment_key(dependencies: Iterable[str], python: str, flower: str, wheels: str) -> str:
    """Name the environment: equal needs give equal names, on machines that are alike."""
    parts = json.dumps([sorted(dependencies), python, flower, wheels])
    return hashlib.sha256(parts.encode()).hexdigest()[:_KEY_LENGTH]


def imported(sources: Iterable[bytes]) -> set[str]:
    """List the modules that the code imports by their full names."""
    return {name for source in sources for name in _imports_of(source)}


def _imports_of(source: bytes) -> Iterator[str]:
    try:
        tree: Any = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
