"""Reads the state file without changing it, also where nothing can be written."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from umbel.diagnosis.facts import StateKind, StateSeen
from umbel.model.federation import Federation
from umbel.model.unit import Kind, Unit
from umbel.ports import Kept
from umbel.store.sqlite import MIGRATIONS

NAME = "umbel.db"


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered."""

    seen: StateSeen
    federations: Mapping[str, Federation] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    ports: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by federation
    units: Mapping[str, tuple[Kept, ...]] = field(default_factory=dict)


def look(home: Path) -> State:
    """Read everything; what is wrong with the file is part of the answer."""
    path = home / NAME
    try:
        if not path.exists():
            return State(StateSeen(StateKind.MISSING, path))
        if not path.with_name(f"{path.name}-shm").is_file():
            return _read_copy(path)  # nobody has it open: opening it here would leave files
        try:
            return _read(path, f"{path.as_uri()}?mode=ro")
        except sqlite3.OperationalError:  # no right to write the index of its journal
            return _read_copy(path)
    except sqlite3.DatabaseError as error:
        return State(StateSeen(StateKind.DAMAGED, path, str(error)))
    except OSError as error:
        return State(StateSeen(StateKind.UNSEEN, path, error.strerror or str(error)))


def _read_copy(path: Path) -> State:
    with tempfile.TemporaryDirectory(prefix="umbel-") as folder:
        for name in (path.name, f"{path.name}-wal"):
            if (source := path.with_name(name)).exists():
                shutil.copyfile(source, Path(folder) / name)
        return _read(path, (Path(folder) / path.name).as_uri())


def _read(path: Path, uri: str) -> State:
    with closing(sqlite3.connect(uri, uri=True, timeout=1)) as db:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > len(MIGRATIONS):
            why = f"its version is {version}, and {len(MIGRATIONS)} is the newest known here"
            return State(StateSeen(StateKind.NEWER, path, why))
        if version == 0:  # made, and never written
            return State(StateSeen(StateKind.READ, path))
        documents = db.execute("SELECT name, document FROM federation ORDER BY name").fetchall()
        ports: dict[str, dict[str, int]] = {}
        for federation, purpose, port in db.execute("SELECT * FROM port"):
            ports.setdefault(federation, {})[purpose] = port
        units: dict[str, tuple[Kept, ...]] = {}
        for federation, _, site, kind, settings, pid, started in db.execute("SELECT * FROM unit"):
            unit = Unit(federation, site, Kind(kind), json.loads(settings))
            units[federation] = (*units.get(federation, ()), Kept(unit, pid, started))
    read = {name: _document(text) for name, text in documents}
    return State(
        StateSeen(StateKind.READ, path),
        {name: document for name, document in read.items() if document is not None},
        tuple(name for name, document in read.items() if document is None),
        ports,
        units,
    )


def _document(text: str) -> Federation | None:
    try:
        return Federation.model_validate_json(text, extra="ignore")
    except ValidationError:
        return None
