"""When to start again what ended."""

from __future__ import annotations

from umbel.model.unit import Kind

FIRST_S = 0.2
AWAY_S = 4.0  # a ServerApp looks for answers, and for who is gone, every 3 s
LONGEST_S = 15.0
STEADY_S = 90.0  # who ran this long starts from scratch


def delay_s(failures: int, kind: Kind | None = None) -> float:
    """Wait twice as long each time, but never give up.

    A SuperNode that was killed is refused until the SuperLink takes it for gone: until it is signed
    off by its agent, or up to 60 s later; waits of at most 15 s outlast that. It also stays away for
    a moment, so that a run that waits for its answer sees it gone and goes on without it.
    """
    if kind is Kind.SUPERNODE and failures == 1:
        return AWAY_S
    return min(FIRST_S * 2.0 ** min(max(failures - 1, 0), 16), LONGEST_S)


def failures_after(failures: int, lifetime_s: float) -> int:
    """Count a further end; one that ran steadily before counts as the first."""
    return 1 if lifetime_s >= STEADY_S else failures + 1
