"""What an executor knows of the apps it runs: found out once an app, not once a task."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from umbel.exec import provided
from umbel.exec.environments import Environments, Recipe, identity_of
from umbel.exec.needs import environment_key, read_needs
from umbel.exec.settings import ExecSettings
from umbel.flower import versions
from umbel.flower.tasks import install_app


@dataclass(frozen=True, slots=True)
class App:
    """An app, and where it can run."""

    fab_hash: str
    key: str  # of its environment
    recipe: Recipe | None  # None: the environment is there
    imports: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    python: Path = Path()
    installed: bool = False


class Apps:
    """The apps of one executor, by the hash of their bundle."""

    def __init__(self, settings: ExecSettings, environments: Environments) -> None:
        self._settings = settings
        self._environments = environments
        self._known: dict[str, App] = {}

    def find(self, fab_hash: str, fab: bytes) -> App:
        """Say what the app needs; its files are put in place the first time."""
        app = self._known.get(fab_hash)
        if app is None or not app.python.exists():
            app = self._known[fab_hash] = self._look(fab_hash, fab)
        if app.recipe is None and app.key != provided.KEY:
            self._environments.touch(app.key)
        return app

    def is_built(self, key: str) -> None:
        """Note that an environment is there now."""
        for fab_hash, app in self._known.items():
            if app.key == key:
                self._known[fab_hash] = replace(app, recipe=None)

    def _look(self, fab_hash: str, fab: bytes) -> App:
        needs, wheels = read_needs(fab), self._settings.wheels
        installed = install_app(fab, self._settings.flower_home)
        if self._settings.provides and not provided.lacks(needs.dependencies):
            own = Path(sys.executable)
            return App(fab_hash, provided.KEY, None, needs.imports, needs.own, own, installed)
        recipe = recipe_of(needs.dependencies, wheels)
        return App(
            fab_hash,
            recipe.key,
            None if self._environments.is_ready(recipe.key) else recipe,
            needs.imports,
            needs.own,
            self._environments.python(recipe.key),
            installed,
        )


def recipe_of(dependencies: tuple[str, ...], wheels: Path | None = None) -> Recipe:
    """Say what the environment for these dependencies is made of, on this machine."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    flower = versions.installed()
    key = environment_key(dependencies, python, flower, identity_of(wheels))
    return Recipe(key, dependencies, flower, wheels)
