"""When to start again what ended."""

from __future__ import annotations

FIRST_S = 0.2
LONGEST_S = 15.0
STEADY_S = 90.0  # who ran this long starts from scratch


def delay_s(failures: int) -> float:
    """Wait twice as long each time, but never give up.

    A SuperNode that was killed is refused until the SuperLink takes it for gone, up to 60 s later:
    waits of at most 15 s outlast that.
    """
    return min(FIRST_S * 2.0 ** min(max(failures - 1, 0), 16), LONGEST_S)


def failures_after(failures: int, lifetime_s: float) -> int:
    """Count a further end; one that ran steadily before counts as the first."""
    return 1 if lifetime_s >= STEADY_S else failures + 1
