"""Federations with limits, and apps that tell what they see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.federation.conftest import APPS, Home, MakeHome, make_home

__all__ = ["make_home"]

MEMORY = 256 << 20
ROUND = ("-c", "num-server-rounds=1")
MakeApp = Callable[..., Path]


@pytest.fixture(scope="session")
def tight(make_home: MakeHome, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Give a home whose federation of two sites lets one ClientApp run at a time."""
    place = tmp_path_factory.mktemp("environments")
    home = make_home("tight", UMBEL_ENVIRONMENTS=str(place))
    resources = {"cpu": os.cpu_count(), "memory": MEMORY}
    groups = [{"name": "local", "sites": 2}]
    document = home.write("tight", groups=groups, runtime={"resources": resources})
    home.umbel("up", "-f", str(document)).ok()
    return home


@pytest.fixture
def make_app(tmp_path: Path) -> MakeApp:
    """Give an app with dependencies and with code of its own at the start of each training."""

    def make(name: str, code: str = "", *needs: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(APPS / "message_numpy", folder)
        project = folder / "pyproject.toml"
        listed = "".join(f', "{need}"' for need in needs)
        text = project.read_text().replace('"numpy>=1.26"]', f'"numpy>=1.26"{listed}]')
        project.write_text(text.replace('name = "message-numpy"', f'name = "{name}"'))
        client = folder / "message_numpy" / "client_app.py"
        body = "".join(f"    {line}\n" for line in code.splitlines())
        begin = "def train(message: Message, context: Context) -> Message:\n"
        client.write_text(client.read_text().replace(begin, begin + body))
        return folder

    return make
