"""Chooses from ranked sites so that they stay even over a label's or claim's values.

OCM declares spread constraints and does nothing with them; the meaning here is that of its
documentation and of Kubernetes' pod topology spread:

- A constraint's places are the values that the candidates have. The skew of a place is the number
  chosen there minus the number chosen in the place with the fewest.
- DoNotSchedule: a site whose choice would make the skew greater than maxSkew waits until the others
  catch up, and stays out if they never do. A site without the label or claim stays out.
- ScheduleAnyway: such a site, or one without the label or claim, comes after those that keep the
  skew, but comes. An earlier constraint counts more than a later one.

The choice is greedy: the best ranked site that may be chosen now, again and again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from types import MappingProxyType

from umbel.model.placement import SpreadConstraint
from umbel.model.site import Site

Cell = tuple[str | None, ...]  # a value for each constraint: all sites of a cell are alike
Excess = tuple[int, ...]  # for each soft constraint: how far beyond maxSkew
_NOTHING: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of the ranked sites are chosen, by index, and what to say about some of them."""

    chosen: Sequence[int]
    remarks: Mapping[int, str] = field(default_factory=lambda: _NOTHING)


@dataclass(slots=True)
class Tally:
    """How many sites are chosen in each place of one constraint."""

    rule: SpreadConstraint
    counts: dict[str, int]
    fewest: int = 0
    at_fewest: int = field(init=False)

    def __post_init__(self) -> None:
        self.at_fewest = len(self.counts)

    @property
    def hard(self) -> bool:
        """Whether a site may be left out for it."""
        return self.rule.when_unsatisfiable == "DoNotSchedule"

    @property
    def name(self) -> str:
        """What is spread over, in words."""
        return f"{self.rule.topology_key_type.lower()} {self.rule.topology_key}"

    def excess(self, place: str | None) -> int:
        """Say how far beyond maxSkew one more site would be; no place is the farthest."""
        if place is None:
            return 1 << 30
        return max(0, self.counts[place] + 1 - self.fewest - self.rule.max_skew)

    def add(self, place: str | None) -> bool:
        """Count a site; true if now the place with the fewest has more than before."""
        if place is None:
            return False
        before = self.counts[place]
        self.counts[place] = before + 1
        if before != self.fewest:
            return False
        self.at_fewest -= 1
        if self.at_fewest:
            return False
        self.fewest = min(self.counts.values())
        self.at_fewest = sum(1 for count in self.counts.values() if count == self.fewest)
        return True

    def told(self, place: str | None) -> str:
        """Say why one more site at the place is too many."""
        if place is None:
            return f"{self.name} is missing, which sites are spread over"
        return (
            f"spread over {self.name}: {place!r} has {self.counts[place]}, "
            f"the fewest elsewhere is {self.fewest}, maxSkew {self.rule.max_skew}"
        )


def select(
    ranked: Sequence[Site], wanted: int | None, rules: Sequence[SpreadConstraint]
) -> Selection:
    """Choose up to `wanted` of the ranked sites (best first); None means as many as can be."""
    limit = len(ranked) if wanted is None else min(wanted, len(ranked))
    tallies = [tally for rule in rules if (tally := _tally(rule, ranked))]
    if not tallies:
        return Selection(range(limit))
    return _Greedy(ranked, tallies).choose(limit)


def _place(site: Site, rule: SpreadConstraint) -> str | None:
    facts = site.labels if rule.topology_key_type == "Label" else site.claims
    return facts.get(rule.topology_key)


def _tally(rule: SpreadConstraint, ranked: Sequence[Site]) -> Tally | None:
    """Start counting; None if the rule holds whatever is chosen."""
    places = Counter(_place(site, rule) for site in ranked)
    nowhere = places.pop(None, 0)
    if not nowhere and max(places.values(), default=0) <= rule.max_skew:
        return None
    return Tally(rule, dict.fromkeys((place for place in places if place is not None), 0))


class _Greedy:
    """Sites in cells, cells in a heap by excess and rank; who must wait is looked at again later."""

    def __init__(self, ranked: Sequence[Site], tallies: Sequence[Tally]) -> None:
        self._ranked = ranked
        self._tallies = tallies
        self._hard = [i for i, tally in enumerate(tallies) if tally.hard]
        self._soft = [i for i, tally in enumerate(tallies) if not tally.hard]
        self._cells: dict[Cell, deque[int]] = {}
        for rank, site in enumerate(ranked):
            cell = tuple(_place(site, tally.rule) for tally in tallies)
            self._cells.setdefault(cell, deque()).append(rank)
        self._heap: list[tuple[Excess, int, Cell]] = []

    def choose(self, limit: int) -> Selection:
        chosen: list[int] = []
        remarks: dict[int, str] = {}
        self._refill()
        while self._heap and len(chosen) < limit:
            excess, rank, cell = heappop(self._heap)
            now = self._excess(cell)
            if self._blocker(cell) is not None:
                continue  # comes back with the next refill
            if now > excess:
                heappush(self._heap, (now, rank, cell))
                continue
            if any(now):
                remarks[rank] = f"not spread evenly: {self._uneven(cell, now)}"
            chosen.append(self._cells[cell].popleft())
            self._count(cell)
        complete = len(chosen) == limit
        return Selection(sorted(chosen), {**remarks, **self._left_out(limit, complete=complete)})

    def _refill(self) -> None:
        self._heap = [(self._excess(c), ranks[0], c) for c, ranks in self._cells.items() if ranks]
        heapify(self._heap)

    def _count(self, cell: Cell) -> None:
        risen = [tally.add(place) for tally, place in zip(self._tallies, cell, strict=True)]
        if any(risen):
            self._refill()  # others may come now that had to wait
        elif ranks := self._cells[cell]:
            heappush(self._heap, (self._excess(cell), ranks[0], cell))

    def _excess(self, cell: Cell) -> Excess:
        return tuple(self._tallies[i].excess(cell[i]) for i in self._soft)

    def _blocker(self, cell: Cell) -> int | None:
        return next((i for i in self._hard if self._tallies[i].excess(cell[i])), None)

    def _uneven(self, cell: Cell, excess: Excess) -> str:
        index = next(i for i, beyond in zip(self._soft, excess, strict=True) if beyond)
        return self._tallies[index].told(cell[index])

    def _left_out(self, limit: int, *, complete: bool) -> dict[int, str]:
        """Explain who was left out for the spread and not for the number alone, by rank."""
        told: dict[int, str] = {}
        over = ", ".join(tally.name for tally in self._tallies)
        for cell, ranks in self._cells.items():
            blocker = self._blocker(cell)
            for rank in ranks:
                if complete and rank >= limit:
                    break
                if blocker is None:
                    told[rank] = f"passed over to stay even over {over}"
                else:
                    told[rank] = self._tallies[blocker].told(cell[blocker])
        return told
