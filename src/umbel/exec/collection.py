"""Which environments have gone unused long enough. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

UNUSED_S = 30 * 86_400.0
QUOTA_BYTES = 20 << 30


@dataclass(frozen=True, slots=True)
class Kept:
    """An environment on the disk."""

    key: str
    used_s: float  # when it was used last
    size: int
    in_use: bool = False


def superfluous(
    kept: Sequence[Kept],
    now_s: float,
    unused_s: float = UNUSED_S,
    quota: int = QUOTA_BYTES,
) -> list[str]:
    """Choose what to remove: what is old, then the longest unused until the rest fits."""
    old = [k for k in kept if not k.in_use and now_s - k.used_s > unused_s]
    rest = [k for k in kept if k not in old]
    chosen = [k.key for k in old]
    total = sum(k.size for k in rest)
    for candidate in sorted((k for k in rest if not k.in_use), key=lambda k: k.used_s):
        if total <= quota:
            break
        chosen.append(candidate.key)
        total -= candidate.size
    return chosen
