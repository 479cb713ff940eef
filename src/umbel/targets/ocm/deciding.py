"""When a decision of OCM counts: once it is written down wholly.

OCM cuts the clusters that a placement chose into lists of a hundred and writes one after the other. A
cluster that moves from one list into the next is in neither for a moment, and a fleet grows list by
list. So nobody is let go, and nobody is taken on, before the lists have been quiet for a while.
Who is with another group already is no newcomer: it moves over without an end in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from umbel.kube.kinds import Object
from umbel.model.site import Verdict
from umbel.targets.ocm.choosing import verdicts

QUIET_S = 1.0
LONGEST_S = 10.0  # then they count, even if OCM has not yet said how many it chose
_Mark = frozenset[tuple[str, str]]


@dataclass(slots=True)
class Deciding:
    """Watches the lists of each placement."""

    clock: Callable[[], float] = time.monotonic
    _changed: dict[str, tuple[_Mark, float]] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)  # by placement: when its lists count
    _counted: dict[str, float] = field(default_factory=dict)  # by cluster: when it did last

    def read(
        self, placement: str, lists: Sequence[Object], chosen: int | None, running: Collection[str]
    ) -> tuple[Verdict, ...]:
        """Give the clusters that count; while lists change, those that run already."""
        found = verdicts(lists)
        agrees = (chosen or 0) == len(found)
        mark = frozenset(_version(one) for one in lists)
        known = self._changed.get(placement)
        if known is None:
            self._changed[placement] = (mark, float("-inf") if agrees else self.clock())
        elif known[0] != mark:
            self._changed[placement] = (mark, self.clock())
        now_s = self.clock()
        self._due[placement] = self._changed[placement][1] + (QUIET_S if agrees else LONGEST_S)
        if self._due[placement] > now_s:
            here = {verdict.site: verdict for verdict in found}
            waiting = ("OCM is still deciding",)
            lately = {s for s in here if now_s - self._counted.get(s, float("-inf")) < LONGEST_S}
            kept = sorted({*running, *lately})
            found = tuple(here.get(s) or Verdict(s, True, waiting) for s in kept)
        self._counted |= {verdict.site: now_s for verdict in found}
        return found

    @property
    def again_s(self) -> float:
        """Say how long what was read last does not count yet; 0: it counts."""
        return max(0.0, max(self._due.values(), default=0.0) - self.clock())


def _version(one: Object) -> tuple[str, str]:
    meta = one["metadata"]
    return meta["name"], meta["resourceVersion"]
