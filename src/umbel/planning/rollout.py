"""How a change reaches sites that run: batch after batch, each healthy before the next. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from umbel.model.kubernetes import Rollout


@dataclass(frozen=True, slots=True)
class Candidate:
    """A site that runs some version."""

    site: str
    batch: int  # its decision group: a later one waits for the earlier ones
    current: bool  # it was given the wanted version
    healthy: bool  # it is online with what it was given
    proved: bool = False  # it was online with it once: what ails it now is not the version
    since_s: float = 0.0  # how long ago it was given that
    new: bool = False  # it had no version before: nothing to go back to, nothing to wait for


@dataclass(frozen=True, slots=True)
class Course:
    """What to do now."""

    update: tuple[str, ...] = ()
    revert: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    state: str = "done"  # done, progressing, halted


def next_course(sites: Sequence[Candidate], rollout: Rollout) -> Course:
    """Choose who is updated next; too many failures turn everybody back.

    A site that came a moment ago has the wanted version from the start: it holds up no others.
    """
    total, sites = len(sites), [s for s in sites if not (s.new and s.current)]
    failed = tuple(
        s.site
        for s in sites
        if s.current and not s.healthy and not s.proved and s.since_s > rollout.deadline_seconds
    )
    if len(failed) > rollout.max_failures:
        current = tuple(s.site for s in sites if s.current)
        return Course(revert=current, failed=failed, state="halted")
    waiting = [s for s in sites if not s.current]
    pending = [s for s in sites if s.current and not s.healthy and s.site not in failed]
    if not waiting:
        return Course(failed=failed, state="progressing" if pending else "done")
    first = min(s.batch for s in waiting)
    soaking = [s for s in sites if s.current and s.healthy and s.since_s < rollout.soak_seconds]
    if soaking or any(s.batch < first for s in pending):
        return Course(failed=failed, state="progressing")
    room = at_once(rollout, total) - len(pending)
    chosen = sorted(s.site for s in waiting if s.batch == first)[: max(0, room)]
    return Course(update=tuple(chosen), failed=failed, state="progressing")


def at_once(rollout: Rollout, total: int) -> int:
    """Say how many sites may change at the same time."""
    wanted = rollout.max_concurrent
    if isinstance(wanted, int):
        return wanted
    return max(1, math.ceil(total * int(wanted.rstrip("%")) / 100))
