"""State in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from umbel.errors import WorldError
from umbel.files import CannotWrite, ensure_private_folder
from umbel.model.federation import Federation
from umbel.model.unit import Kind, Unit
from umbel.ports import Allotment, Kept

# Each entry brings the file one version further; never edit one that was released.
MIGRATIONS = (
    """
    CREATE TABLE federation (name TEXT PRIMARY KEY, document TEXT NOT NULL);
    CREATE TABLE port (federation TEXT, purpose TEXT, port INTEGER NOT NULL,
                       PRIMARY KEY (federation, purpose));
    CREATE TABLE partition (federation TEXT, site TEXT, id INTEGER NOT NULL,
                            PRIMARY KEY (federation, site), UNIQUE (federation, id));
    CREATE TABLE unit (federation TEXT, name TEXT, site TEXT NOT NULL, kind TEXT NOT NULL,
                       settings TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL,
                       PRIMARY KEY (federation, name));
    """,
)


class StateDamaged(WorldError):
    """The state file is not one that this version can read."""

    code = "U215"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the state file {path} cannot be used: {why}",
            hint="move it away and run umbel up again: running sites are found by their files; "
            "or use the Umbel version that wrote it",
        )


class SqliteStore:
    """The store of one UMBEL_HOME. `folder` is made private."""

    def __init__(self, folder: Path) -> None:
        ensure_private_folder(folder)
        self._path = folder / "umbel.db"
        try:
            self._db = sqlite3.connect(self._path, isolation_level=None, timeout=10)
            self._path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._migrate()
        except sqlite3.DatabaseError as error:
            raise self._problem(error) from error

    def close(self) -> None:
        """Let the file go."""
        self._db.close()

    def _problem(self, error: sqlite3.DatabaseError) -> WorldError:
        text = str(error)
        for words, number in (("full", 28), ("readonly", 30), ("unable to open", 13)):
            if words in text:
                return CannotWrite(self._path, OSError(number, text))
        return StateDamaged(self._path, text)

    def _migrate(self) -> None:
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version > len(MIGRATIONS):
            raise StateDamaged(self._path, f"version {version} is newer than this Umbel knows")
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            self._db.executescript(f"BEGIN; {script} PRAGMA user_version={number}; COMMIT;")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise self._problem(error) from error

    def federations(self) -> Mapping[str, Federation]:
        """Give every declared federation."""
        rows = self._db.execute("SELECT name, document FROM federation ORDER BY name")
        return {name: _read_document(text) for name, text in rows}

    def save_federation(self, federation: Federation) -> None:
        """Remember the document."""
        text = federation.model_dump_json(exclude_defaults=True)
        with self._transaction() as db:
            db.execute(
                "INSERT INTO federation VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET document = excluded.document",
                (federation.name, text),
            )

    def forget_federation(self, name: str, *, keep_allotment: bool) -> None:
        """Forget document and units; ports and partition ids only when told to."""
        with self._transaction() as db:
            for table in ("unit",) if keep_allotment else ("unit", "port", "partition"):
                db.execute(f"DELETE FROM {table} WHERE federation = ?", (name,))  # noqa: S608  # names from above
            db.execute("DELETE FROM federation WHERE name = ?", (name,))

    def allotment(self, federation: str) -> Allotment:
        """Give ports and partition ids."""
        ports = self._db.execute("SELECT purpose, port FROM port WHERE federation=?", (federation,))
        ids = self._db.execute("SELECT site, id FROM partition WHERE federation=?", (federation,))
        return Allotment(dict(ports.fetchall()), dict(ids.fetchall()))

    def save_allotment(self, federation: str, allotment: Allotment) -> None:
        """Remember ports and partition ids, in place of the former ones."""
        with self._transaction() as db:
            for table, values in (("port", allotment.ports), ("partition", allotment.partitions)):
                db.execute(f"DELETE FROM {table} WHERE federation = ?", (federation,))  # noqa: S608
                db.executemany(
                    f"INSERT INTO {table} VALUES (?, ?, ?)",  # noqa: S608
                    [(federation, key, value) for key, value in values.items()],
                )

    def units(self, federation: str) -> Mapping[str, Kept]:
        """Give every unit that was started."""
        rows = self._db.execute(
            "SELECT name, site, kind, settings, pid, started FROM unit WHERE federation = ?",
            (federation,),
        )
        return {
            name: Kept(Unit(federation, site, Kind(kind), json.loads(settings)), pid, started)
            for name, site, kind, settings, pid, started in rows
        }

    def save_unit(self, kept: Kept) -> None:
        """Remember the unit and its process."""
        unit = kept.unit
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO unit VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(unit.federation, unit.name, unit.site, str(unit.kind)),
                    *(json.dumps(unit.settings), kept.pid, kept.started),
                ),
            )

    def forget_unit(self, federation: str, name: str) -> None:
        """Forget the unit."""
        with self._transaction() as db:
            db.execute("DELETE FROM unit WHERE federation = ? AND name = ?", (federation, name))


def _read_document(text: str) -> Federation:
    """Read back what some version of us wrote: keys we do not know are dropped."""
    return Federation.model_validate_json(text, extra="ignore")
