"""All checks, in the order in which a person should read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from umbel.diagnosis import federations, flower, home, keepers, leftovers, machine, parents
from umbel.diagnosis.facts import Facts
from umbel.diagnosis.finding import Finding

CHECKS: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    machine.python,
    flower.version,
    flower.selftest,
    machine.clock,
    machine.memory,
    machine.open_files,
    home.owner,
    home.writable,
    home.space,
    home.modes,
    home.state,
    keepers.daemon,
    keepers.nursery,
    keepers.silence,
    keepers.versions,
    federations.default_ports,
    federations.each(federations.ports),
    federations.each(federations.certificates),
    federations.each(federations.units),
    federations.each(federations.doors),
    federations.each(federations.conditions),
    federations.each(federations.data),
    leftovers.processes,
    leftovers.sockets,
    leftovers.runs,
    parents.forking,
)


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Give every finding; consequences are still among them."""
    return tuple(finding for check in CHECKS for finding in check(facts))
