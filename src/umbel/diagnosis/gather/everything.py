"""Puts all looks together, side by side where they wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import umbel
from umbel.diagnosis.facts import Facts, FederationSeen, Moment, PortSeen
from umbel.diagnosis.gather import federation, home, keepers, machine, old_runs, parents, state
from umbel.diagnosis.gather.federation import Remembered
from umbel.diagnosis.gather.flower import SelfTest, TestsFlower
from umbel.diagnosis.gather.processes import Processes
from umbel.targets.local.free_ports import FIRST_SITE_PORT, PREFERRED

_AT_ONCE = 8


def gather(folder: Path, begin: Callable[[], TestsFlower] = SelfTest) -> Facts:
    """Look at everything that the checks want to know; Flower is tested meanwhile."""
    with begin() as selftest, ThreadPoolExecutor(_AT_ONCE) as pool:
        seen = machine.look()
        looks = (pool.submit(keepers.daemon, folder), pool.submit(keepers.nursery, folder))
        home_seen = pool.submit(home.look, folder)
        runs = pool.submit(old_runs.look, folder, seen.now)
        known = state.look(folder)
        daemon, nursery = (look.result() for look in looks)
        pids = [kept.pid for units in known.units.values() for kept in units]
        processes = Processes(folder, [daemon.pid, nursery.pid, *pids])
        remembered = [
            Remembered(document, known.ports.get(name, {}), known.units.get(name, ()))
            for name, document in known.federations.items()
        ]
        look = partial(federation.look, folder, processes=processes, now=seen.now)
        federations: tuple[FederationSeen, ...] = tuple(pool.map(look, remembered))
        return Facts(
            machine=seen,
            home=home_seen.result(),
            flower=selftest.result(),
            state=known.seen,
            daemon=daemon,
            nursery=nursery,
            moments=tuple(_moments(folder, list(known.federations))),
            default_ports=() if known.federations else _default_ports(processes),
            federations=federations,
            unreadable=known.unreadable,
            left=processes.left(),
            starting=processes.starting(),
            old_runs=runs.result(),
            unsafe=parents.unsafe(folder),
        )


def _default_ports(processes: Processes) -> tuple[PortSeen, ...]:
    usual = {**PREFERRED, "the first site": FIRST_SITE_PORT}
    return tuple(PortSeen(name, port, processes.holder(port)) for name, port in usual.items())


def _moments(folder: Path, names: list[str]) -> list[Moment]:
    """Collect times that must have passed: our own files', and this package's."""
    files = [folder / name for name in ("umbel.db", "umbel.db-wal", "daemon.log", "nursery.log")]
    package = Path(umbel.__file__)
    return machine.written([*files, package]) + federation.moments(folder, names)
