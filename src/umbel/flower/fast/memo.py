"""Reads the same thing once in a transaction: inside of one, the answer cannot change.

A batch of a hundred objects asks a hundred times who the node is, whether the run still runs and whose
the task token is, and adds to the run's traffic each time. In one unit of work each is done once.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

READS = ("get_node_id_by_public_key", "get_run_status", "get_task_by_token")


@dataclass(slots=True)
class _Unit:
    answers: dict[tuple[str, Any], Any] = field(default_factory=dict)
    traffic: dict[int, list[int]] = field(default_factory=dict)


_unit: ContextVar[_Unit | None] = ContextVar("unit", default=None)


def install() -> None:
    """Let SuperLink's state remember within a unit of work."""
    state: Any = import_module("flwr.server.superlink.linkstate.sql_linkstate").SqlLinkState
    for name in READS:
        setattr(state, name, _once(name, getattr(state, name)))
    state.store_traffic = _summed(state.store_traffic)


@contextlib.contextmanager
def unit_of_work(state: Any) -> Iterator[None]:
    """Remember reads and sum traffic up while the block lasts; it must be one transaction."""
    unit = _Unit()
    token = _unit.set(unit)
    try:
        yield
        _unit.set(None)
        for run_id, (sent, received) in unit.traffic.items():
            state.store_traffic(run_id, bytes_sent=sent, bytes_recv=received)
    finally:
        _unit.reset(token)


def _once(name: str, stock: Any) -> Any:
    @functools.wraps(stock)
    def read(self: Any, argument: Any = None, **named: Any) -> Any:
        unit = _unit.get()
        if argument is None:
            (argument,) = named.values()
        if unit is None:
            return stock(self, argument)
        key = (name, frozenset(argument) if isinstance(argument, set) else argument)
        if key not in unit.answers:
            unit.answers[key] = stock(self, argument)
        return unit.answers[key]

    return read


def _summed(stock: Any) -> Any:
    @functools.wraps(stock)
    def store_traffic(self: Any, run_id: int, *, bytes_sent: int, bytes_recv: int) -> None:
        unit = _unit.get()
        if unit is None:
            stock(self, run_id, bytes_sent=bytes_sent, bytes_recv=bytes_recv)
            return
        sums = unit.traffic.setdefault(run_id, [0, 0])
        sums[0] += bytes_sent
        sums[1] += bytes_recv

    return store_traffic
