"""Federations that really run, counted runs, and stock Flower beside them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.integration.exactness.beside import Stock
from tests.integration.federation.conftest import (
    Home,
    MakeHome,
    make_home,
    until,
)

from stock import free_range, stock

__all__ = ["make_home"]

LONG = os.environ.get("UMBEL_LONG") == "1"
APPS = Path(__file__).parents[2] / "apps"
COUNTED = re.compile(r"^.*COUNTED (\{.*\})$", re.MULTILINE)
SLOW_ROUND_S = 240.0
STEPS = re.compile(r"^.*STEPS (\[.*\])$", re.MULTILINE)


def counted_rounds(log: str) -> list[dict[str, Any]]:
    """Read what the `counted` app printed, a row a round."""
    return [json.loads(text) for text in COUNTED.findall(log)]


def assert_all_counted(log: str, rounds: int, nodes: int) -> None:
    """Every node answered in every round, once, and had counted every round once."""
    rows = counted_rounds(log)
    assert [row["round"] for row in rows] == list(range(1, rounds + 1))
    assert [row["errors"] for row in rows] == [[]] * rounds
    for row in rows:
        answered = Counter(node for node, _ in row["calls"])
        assert (len(answered), set(answered.values())) == (nodes, {1}), row
        assert {calls for _, calls in row["calls"]} == {row["round"]}, row
    assert STEPS.findall(log) == [f"[{float(rounds)}]"]


@dataclass(frozen=True)
class Counted:
    """A run of the `counted` app in one of our federations."""

    home: Home
    name: str
    run_id: str

    @property
    def log(self) -> str:
        """What the ServerApp printed so far."""
        path = self.home.folder(self.name) / "hub" / "runs" / self.run_id / "log.txt"
        return path.read_text() if path.exists() else ""

    @property
    def rounds(self) -> int:
        """How many rounds are done."""
        return len(counted_rounds(self.log))

    def executions(self) -> dict[str, list[int]]:
        """Give the rounds that each site executed, in this order."""
        sites = self.home.folder(self.name) / "sites"
        files = sites.glob(f"*/runs/{self.run_id}/work/executions-*.txt")
        return {p.parents[3].name: [int(n) for n in p.read_text().split()] for p in files}

    def until_round(self, number: int) -> None:
        """Wait until so many rounds are done."""
        until(lambda: self.rounds >= number, f"round {number} is done", SLOW_ROUND_S)

    def until_replaced(self, unit: str, pid: int) -> None:
        """Wait until the unit has another process than this one."""
        until(lambda: self.home.units(self.name).get(unit, pid) != pid, f"{unit} is back")

    def completed(self, timeout_s: float = 180.0) -> None:
        """Wait for the run's good end."""
        ended = self.home.until_over(self.run_id, self.name, timeout_s)
        assert ended["status"] == "completed", ended


def start_counted(home: Home, name: str, rounds: int, nodes: int, **config: int) -> Counted:
    """Start the `counted` app."""
    settings = {"num-server-rounds": rounds, "min-nodes": nodes, **config}
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    return Counted(home, name, home.submit("counted", *words, name=name))


def bring_up(home: Home, name: str, sites: int, runtime: Mapping[str, str] | None = None) -> None:
    """Bring up a federation of local sites."""
    first = free_range(3)  # named, so that nobody else is given them while the gate is away
    ports = {"fleet": first, "control": first + 1, "runtime": first + 2}
    spec: dict[str, Any] = {
        "groups": [{"name": "local", "sites": sites}],
        "superlink": {"ports": ports},
        **({"runtime": dict(runtime)} if runtime else {}),
    }
    home.umbel("up", "-f", str(home.write(name, **spec))).ok()
    home.until_ready(name)


@pytest.fixture(scope="session")
def exact_home(make_home: MakeHome) -> Home:
    """Give a home with a federation of three sites, `warm`."""
    home = make_home("exact")
    bring_up(home, "warm", 3)
    return home


@pytest.fixture(scope="session")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where variants of apps are."""
    return tmp_path_factory.mktemp("exact-apps")


@pytest.fixture(scope="session")
def stock_side() -> Iterator[Stock]:
    """A federation made of stock commands; it is slow, so all tests share it."""
    nodes = 3 if LONG else 1
    with stock(nodes) as (_, folder):
        yield Stock(folder, nodes)
        for pid in (folder / "pids").read_text().split():  # asked to end, each takes seconds
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
