"""The composition root: the one module that names concrete classes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from umbel.agent.nursery_client import NurseryClient
from umbel.agent.supervisor import Supervisor
from umbel.engine.engine import Engine
from umbel.engine.runs import Runs
from umbel.store.memory import MemoryStore
from umbel.store.sqlite import SqliteStore
from umbel.targets.local.flower import LocalFlower
from umbel.targets.local.orders import order
from umbel.targets.local.target import LocalTarget


@dataclass(frozen=True, slots=True)
class House:
    """Everything that one UMBEL_HOME needs, put together."""

    home: Path
    store: SqliteStore
    nursery: NurseryClient
    supervisor: Supervisor
    target: LocalTarget
    engine: Engine
    runs: Runs


def build_house(home: Path, loading: subprocess.Popen[bytes] | None = None) -> House:
    """Put the parts together for this home. Starts nothing; `loading` is a nursery under way."""
    store = SqliteStore(home)
    nursery = NurseryClient(home, daemon_command(home), loading)
    flower = LocalFlower(home, store, nursery)
    supervisor = Supervisor(store, nursery, partial(order, home), flower.sign_off)
    target = LocalTarget(home, store, nursery, supervisor, flower)
    engine = Engine(store, target, flower)
    return House(home, store, nursery, supervisor, target, engine, Runs(flower, target))


def build_looker(home: Path) -> Engine:
    """Give an engine for a home where nothing runs: it can plan, and writes nothing."""
    store = MemoryStore()
    nursery = NurseryClient(home, daemon_command(home))
    flower = LocalFlower(home, store, nursery)
    supervisor = Supervisor(store, nursery, partial(order, home), flower.sign_off)
    return Engine(store, LocalTarget(home, store, nursery, supervisor, flower), flower)


def daemon_command(home: Path) -> list[str]:
    """Say how the daemon of this home is started."""
    return [sys.executable, "-m", "umbel.server.daemon", str(home)]
