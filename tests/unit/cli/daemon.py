"""A daemon that only knows names."""

from __future__ import annotations

from umbel.client import Client, NothingRuns


class Here(Client):
    """A daemon with these federations."""

    names: tuple[str, ...] = ()

    def federations(self) -> list[object]:
        if not self.names:
            raise NothingRuns
        return [{"metadata": {"name": name}} for name in self.names]

    def running(self) -> bool:
        return bool(self.names)
