"""Judges what was left behind."""

from __future__ import annotations

from collections.abc import Iterator

from umbel.diagnosis.facts import Facts, KeeperState
from umbel.diagnosis.finding import DependsOn, Finding, Severity, ok

MIB = 1 << 20
_BLIND = (DependsOn("StateDamaged"), DependsOn("StateNewer"), DependsOn("HomeForeign"))


def processes(facts: Facts) -> Iterator[Finding]:
    """Every process of this home belongs to a federation."""
    for left in facts.left:
        yield Finding(
            "ProcessLeft",
            Severity.PROBLEM,
            f"process {left.pid} ({left.name}) is of this home, and no federation owns it",
            f"kill {left.pid}",
            about=str(left.pid),
            depends_on=_BLIND,
        )
    if not facts.left:
        yield ok("Processes", "no process was left behind")


def sockets(facts: Facts) -> Iterator[Finding]:
    """A socket that nobody listens on is of no use, and tells of a sudden end."""
    nothing_declared = not facts.federations
    for seen in (facts.daemon, facts.nursery):
        if seen.state is KeeperState.STALE and nothing_declared:
            yield Finding(
                "SocketLeft",
                Severity.NOTE,
                f"the {seen.name}'s socket was left behind by a sudden end",
                "nothing to do: the next umbel up replaces it",
                about=seen.name,
                depends_on=(DependsOn("DaemonGone"), DependsOn("NurseryGone")),
            )


def runs(facts: Facts) -> Iterator[Finding]:
    """Results that nobody has touched for long take space."""
    for old in facts.old_runs:
        yield Finding(
            "RunsOld",
            Severity.NOTE,
            f"{old.folder} has {old.count} runs older than a month "
            f"(the oldest: {old.days} days), {old.size // MIB} MiB",
            f"what is not needed any more can go: find {old.folder} -mindepth 1 -maxdepth 1 "
            "-mtime +30 -exec rm -r {} +",
            about=str(old.folder),
        )
