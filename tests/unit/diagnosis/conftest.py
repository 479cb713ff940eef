from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from umbel.diagnosis.facts import (
    DoorSeen,
    Facts,
    FederationSeen,
    FlowerSeen,
    Holder,
    Home,
    HomeKind,
    Keeper,
    KeeperState,
    Machine,
    PortSeen,
    StateKind,
    StateSeen,
    UnitSeen,
)
from umbel.model.federation import Federation
from umbel.model.status import Condition

HOME = Path("/home/ada/umbel")
PYTHON = "/opt/umbel/bin/python"
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
OURS = Holder(41, "python -m umbel.gate", "ada", ours=True)


def _federation(**changes: Any) -> FederationSeen:
    """A federation in which all is well."""
    seen = FederationSeen(
        document=Federation.model_validate({"metadata": {"name": "local"}}),
        ports=(PortSeen("control", 9093, OURS), PortSeen("fleet", 9092, OURS)),
        checked=2,
        doors=(DoorSeen("control", "127.0.0.1:9093", stranger=401),),
        units=(UnitSeen("hub/gate", True, "", "", HOME / "gate.log"),),
        conditions=(Condition("Ready", "True", "AllGood"),),
    )
    return replace(seen, **changes)


def _keeper(name: str, **changes: Any) -> Keeper:
    return replace(Keeper(name, KeeperState.ALIVE, "", 40, "0.1.0", PYTHON), **changes)


def _healthy(**changes: Any) -> Facts:
    """A machine on which all is well; the changes are what is not."""
    facts = Facts(
        machine=Machine(
            platform="linux",
            python=(3, 12, 1),
            executable=PYTHON,
            umbel="0.1.0",
            now=NOW,
            keeps_time=True,
            open_files=1024,
            memory_free=8 << 30,
            user=1000,
            user_name="ada",
        ),
        home=Home(
            path=HOME,
            kind=HomeKind.FOLDER,
            owner=1000,
            owner_name="ada",
            free_bytes=50 << 30,
            free_files=1_000_000,
            filesystem="ext4",
        ),
        flower=FlowerSeen("1.41.0", ()),
        state=StateSeen(StateKind.READ, HOME / "umbel.db"),
        daemon=_keeper("daemon"),
        nursery=_keeper("nursery"),
        federations=(_federation(),),
    )
    return replace(facts, **changes)


def _nothing_yet(**changes: Any) -> Facts:
    """A machine on which nothing was ever started."""
    return _healthy(
        home=Home(HOME, HomeKind.MISSING, owner=1000, owner_name="ada"),
        state=StateSeen(StateKind.MISSING, HOME / "umbel.db"),
        daemon=Keeper("daemon", KeeperState.ABSENT),
        nursery=Keeper("nursery", KeeperState.ABSENT),
        federations=(),
        **changes,
    )


@pytest.fixture
def a_federation() -> Callable[..., FederationSeen]:
    return _federation


@pytest.fixture
def a_keeper() -> Callable[..., Keeper]:
    return _keeper


@pytest.fixture
def healthy() -> Callable[..., Facts]:
    return _healthy


@pytest.fixture
def nothing_yet() -> Callable[..., Facts]:
    return _nothing_yet
