"""Judges our two background processes: the daemon, and the nursery that runs Flower."""

from __future__ import annotations

from collections.abc import Iterator

from umbel.diagnosis.facts import Facts, Keeper, KeeperState
from umbel.diagnosis.finding import DependsOn, Finding, Severity, ok

_STATE = (DependsOn("StateDamaged"), DependsOn("StateNewer"), DependsOn("HomeForeign"))


def daemon(facts: Facts) -> Iterator[Finding]:
    """The daemon is there when something is declared."""
    seen, needed = facts.daemon, bool(facts.federations)
    match seen.state:
        case KeeperState.ALIVE:
            yield ok("Daemon", f"the daemon answers (process {seen.pid})")
        case KeeperState.SILENT:
            yield _bad(
                "DaemonSilent",
                f"the daemon does not answer: {seen.why}",
                "umbel status waits longer; if that hangs too, end the process that holds "
                "run/umbel.sock: umbel starts a new one, and what runs goes on",
            )
        case KeeperState.STALE:
            yield _bad(
                "DaemonGone",
                f"the daemon was killed: its socket is there, and nobody listens{_said(seen)}",
                "umbel status starts it again; what runs goes on meanwhile",
            )
        case KeeperState.ABSENT if needed:
            yield _bad(
                "DaemonGone",
                f"no daemon runs, but {_names(facts)} should run{_said(seen)}",
                "umbel up starts it, and takes over what still runs",
            )
        case KeeperState.ABSENT:
            yield ok("Daemon", "no daemon runs, and none is needed")


def nursery(facts: Facts) -> Iterator[Finding]:
    """The nursery is there when something runs."""
    seen = facts.nursery
    if seen.state is KeeperState.ALIVE:
        yield ok("Nursery", f"the process that runs Flower answers (process {seen.pid})")
    elif seen.state is not KeeperState.ABSENT or facts.federations:
        yield _bad(
            "NurseryGone",
            f"the process that runs Flower does not answer: {seen.why or 'it is not there'}"
            f"{_said(seen)}",
            "umbel up starts it again",
            DependsOn("DaemonGone"),
        )


def versions(facts: Facts) -> Iterator[Finding]:
    """Both are of the version and of the environment that this command is of."""
    for seen in (facts.daemon, facts.nursery):
        if seen.state is not KeeperState.ALIVE:
            continue
        other = seen.version and seen.version != facts.machine.umbel
        elsewhere = seen.executable and seen.executable != facts.machine.executable
        if other or elsewhere:
            what = f"Umbel {seen.version}" if other else seen.executable
            here = facts.machine.umbel if other else facts.machine.executable
            yield Finding(
                "KeeperOutdated",
                Severity.WARNING,
                f"the {seen.name} runs {what}, and this command is {here}",
                f"kill {seen.pid}: the other one starts it again; or umbel down --keep-data, "
                "then umbel up",
                about=seen.name,
            )


def _bad(name: str, fact: str, hint: str, *causes: DependsOn) -> Finding:
    return Finding(name, Severity.PROBLEM, fact, hint, depends_on=(*_STATE, *causes))


def _said(seen: Keeper) -> str:
    return f"; its last words: {seen.last_words}" if seen.last_words else ""


def _names(facts: Facts) -> str:
    return ", ".join(federation.name for federation in facts.federations)
