"""Where everything of a local federation is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from umbel.model.unit import HUB


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders and files of one federation."""

    home: Path
    federation: str

    @property
    def root(self) -> Path:
        """Everything of the federation."""
        return self.home / "federations" / self.federation

    @property
    def authority(self) -> Path:
        """The CA."""
        return self.root / "ca"

    @property
    def bundle(self) -> Path:
        """The CA certificates that everybody in the federation trusts."""
        return self.authority / "bundle.crt"

    @property
    def tokens(self) -> Path:
        """The users' tokens."""
        return self.root / "users"

    def place(self, site: str) -> Path:
        """The folder of the hub or of a site."""
        return self.root / HUB if site == HUB else self.root / "sites" / site

    def log(self, site: str, kind: str) -> Path:
        """A unit's log."""
        return self.place(site) / "logs" / f"{kind}.log"

    def exit_note(self, site: str, kind: str) -> Path:
        """Where it is noted how a unit ended."""
        return self.place(site) / "logs" / f"{kind}.exit"

    def runs(self, site: str) -> Path:
        """One folder a run."""
        return self.place(site) / "runs"

    @property
    def superlink_socket(self) -> Path:
        """What the SuperLink listens on."""
        return self.place(HUB) / "superlink" / "superlink.sock"

    @property
    def database(self) -> Path:
        """The SuperLink's state."""
        return self.place(HUB) / "superlink" / "state.db"

    @property
    def gate_config(self) -> Path:
        """What the gate is told."""
        return self.place(HUB) / "gate.json"

    @property
    def gate_users(self) -> Path:
        """Who may speak to the Control API."""
        return self.place(HUB) / "users.json"

    @property
    def roster(self) -> Path:
        """Which key is which site."""
        return self.place(HUB) / "sites.json"

    @property
    def audit(self) -> Path:
        """What was asked of the gate, by whom."""
        return self.place(HUB) / "audit.jsonl"

    @property
    def parents(self) -> Path:
        """The parents of tasks: all federations of the home share them."""
        return self.home / "run" / "parents"

    def wake(self, site: str) -> Path:
        """Where the executor of this place is poked."""
        return self.place(site) / "exec.wake"

    def secret(self, site: str) -> Path:
        """What the executor of this place proves itself with."""
        return self.place(site) / "exec.secret"
