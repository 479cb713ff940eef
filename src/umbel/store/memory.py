"""State in memory: for tests, and for looking without writing."""

from __future__ import annotations

from collections.abc import Mapping

from umbel.model.federation import Federation
from umbel.ports import Allotment, Kept


class MemoryStore:
    """The store's promises, without a disk."""

    def __init__(self) -> None:
        self._federations: dict[str, Federation] = {}
        self._allotments: dict[str, Allotment] = {}
        self._units: dict[str, dict[str, Kept]] = {}

    def federations(self) -> Mapping[str, Federation]:
        """Give every declared federation."""
        return dict(sorted(self._federations.items()))

    def save_federation(self, federation: Federation) -> None:
        """Remember the document."""
        self._federations[federation.name] = federation

    def forget_federation(self, name: str, *, keep_allotment: bool) -> None:
        """Forget document and units; ports and partition ids only when told to."""
        self._federations.pop(name, None)
        self._units.pop(name, None)
        if not keep_allotment:
            self._allotments.pop(name, None)

    def allotment(self, federation: str) -> Allotment:
        """Give ports and partition ids."""
        return self._allotments.get(federation, Allotment())

    def save_allotment(self, federation: str, allotment: Allotment) -> None:
        """Remember ports and partition ids, in place of the former ones."""
        self._allotments[federation] = allotment

    def units(self, federation: str) -> Mapping[str, Kept]:
        """Give every unit that was started."""
        return dict(self._units.get(federation, {}))

    def save_unit(self, kept: Kept) -> None:
        """Remember the unit and its process."""
        self._units.setdefault(kept.unit.federation, {})[kept.unit.name] = kept

    def forget_unit(self, federation: str, name: str) -> None:
        """Forget the unit."""
        self._units.get(federation, {}).pop(name, None)
