"""Has the installed Flower compared with our table, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Protocol, Self

from umbel.diagnosis.facts import FlowerSeen, Unseen
from umbel.errors import WorldError
from umbel.flower import versions

LONGEST_S = 30.0  # a loaded machine is slow, and no answer is no finding


class TestsFlower(Protocol):
    """A test of Flower that was begun; leaving the block ends it."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def result(self) -> FlowerSeen: ...


class SelfTest:
    """Runs while others look; leaving the block ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "umbel.flower.selftest"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def result(self) -> FlowerSeen:
        """Wait for the answer."""
        try:
            version = versions.installed()
        except WorldError:
            return FlowerSeen("", Unseen("it is not installed"))
        try:
            out, err = self._process.communicate(timeout=LONGEST_S)
            return FlowerSeen(version, tuple(json.loads(out)))
        except subprocess.TimeoutExpired:
            return FlowerSeen(version, Unseen(f"it took longer than {LONGEST_S:g} s"))
        except ValueError:
            lines = err.decode(errors="replace").strip().splitlines()
            return FlowerSeen(version, Unseen(lines[-1] if lines else "it said nothing"))
