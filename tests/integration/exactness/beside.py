"""Stock Flower beside us: the same app, run by Flower's own command."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.integration.federation.conftest import APPS, until

from stock import BIN, stock_environment

ROUNDS = 2
PACKAGES = {"numpy": "", "sklearn": ', "scikit-learn>=1.5"', "torch": ', "torch>=1.13"'}
STOCK_S = 240.0


def exact_app(folder: Path, framework: str) -> Path:
    """Give the `exact` app with a framework, declared as a person would."""
    target = folder / f"exact-{framework}"
    if not target.exists():
        shutil.copytree(APPS / "exact", target)
        project = target / "pyproject.toml"
        text = project.read_text().replace('"numpy"', f'"{framework}"')
        text = re.sub(
            r"^(dependencies = .*)\]$", rf"\1{PACKAGES[framework]}]", text, flags=re.MULTILINE
        )
        project.write_text(text)
    return target


@dataclass(frozen=True)
class Stock:
    """A federation made by a shell script of stock commands."""

    folder: Path
    nodes: int
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        return {**stock_environment(self.folder), **self.environment}

    @property
    def port(self) -> int:
        """Where its SuperLink is."""
        config = (self.folder / "home" / "config.toml").read_text()
        return int(re.findall(r'address = "127.0.0.1:(\d+)"', config)[0])

    def flwr(self, *words: str, timeout_s: float = STOCK_S) -> str:
        """Run Flower's command; gives what it printed."""
        done = subprocess.run(
            [str(BIN / "flwr"), *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def run(self, app: Path, *words: str, **config: Any) -> str:
        """Run an app; gives what was printed."""
        text = " ".join(f"{k.replace('_', '-')}={toml(v)}" for k, v in config.items())
        return self.flwr("run", str(app), "fed", "--run-config", text, *words)

    def weights(self, framework: str, nodes: int, apps: Path) -> Path:
        """Start the `exact` app; gives the file where its weights will be."""
        file = self.folder / f"{framework}-{nodes}.npz"
        app = exact_app(apps, framework)
        self.run(app, min_nodes=nodes, num_server_rounds=ROUNDS, save_to=str(file))
        return file


def toml(value: Any) -> str:
    """Write a value for Flower's command line."""
    return f"'{value}'" if isinstance(value, str) else str(value)


def read_weights(path: Path) -> list[Any]:
    """Read arrays in their order."""
    until(path.exists, f"there are weights in {path.name}", STOCK_S)
    with np.load(path) as file:
        return [file[name] for name in sorted(file.files, key=int)]


def assert_same(ours: list[Any], theirs: list[Any], nodes: int) -> None:
    """Insist on every bit with one node; with several the order of the sum may differ."""
    assert [(a.dtype, a.shape) for a in ours] == [(a.dtype, a.shape) for a in theirs]
    assert any(array.any() for array in ours)
    for mine, other in zip(ours, theirs, strict=True):
        if nodes == 1:
            assert mine.tobytes() == other.tobytes()
        else:
            rtol = 1e-12 if mine.dtype == np.float64 else 1e-5
            np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol)
