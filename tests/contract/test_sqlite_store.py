from __future__ import annotations

import sqlite3
from pathlib import Path
from stat import S_IMODE

import pytest

from umbel.files import CannotWrite
from umbel.ports import Allotment, Kept
from umbel.store.sqlite import MIGRATIONS, SqliteStore, StateDamaged
from umbel.testing import federation, unit


def test_what_was_saved_is_there_after_a_restart(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path)
    first.save_federation(federation())
    first.save_allotment("lab", Allotment({"fleet": 1}, {"a": 0}))
    first.save_unit(Kept(unit("hub/gate"), 1, 2))
    first.close()
    second = SqliteStore(tmp_path)
    assert second.federations() == {"lab": federation()}
    assert second.allotment("lab") == Allotment({"fleet": 1}, {"a": 0})
    assert second.units("lab") == {"hub/gate": Kept(unit("hub/gate"), 1, 2)}
    second.close()


def test_what_a_killed_process_saved_is_there(tmp_path: Path) -> None:
    abandoned = SqliteStore(tmp_path)
    abandoned.save_federation(federation())
    other = SqliteStore(tmp_path)
    assert list(other.federations()) == ["lab"]
    other.close()
    abandoned.close()


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store = SqliteStore(home)
    store.save_federation(federation())
    modes = {path.name: S_IMODE(path.stat().st_mode) for path in home.iterdir()}
    store.close()
    assert S_IMODE(home.stat().st_mode) == 0o700
    assert modes["umbel.db"] == 0o600
    assert all(mode & 0o077 == 0 for mode in modes.values()), modes


def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "umbel.db"
    path.write_bytes(b"not a database " * 100)
    with pytest.raises(StateDamaged) as told:
        SqliteStore(tmp_path)
    assert told.value.code == "U215"
    assert str(path) in told.value.fact
    assert path.read_bytes() == b"not a database " * 100


def test_the_state_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path).close()
    raw = sqlite3.connect(tmp_path / "umbel.db")
    raw.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    raw.close()
    with pytest.raises(StateDamaged, match="newer"):
        SqliteStore(tmp_path)


def test_a_document_of_a_newer_version_is_read_as_far_as_we_know_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    document = '{"metadata": {"name": "lab", "mood": "good"}, "spec": {"later": [1]}}'
    store._db.execute("INSERT INTO federation VALUES ('lab', ?)", (document,))
    assert store.federations()["lab"].name == "lab"
    store.close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite):
        SqliteStore(tmp_path / "file" / "home")


def test_half_a_transaction_is_none(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.save_allotment("lab", Allotment({"fleet": 1}, {"a": 0}))
    with pytest.raises(StateDamaged, match="UNIQUE"):
        store.save_allotment("lab", Allotment({"fleet": 2}, {"a": 0, "b": 0}))
    assert store.allotment("lab") == Allotment({"fleet": 1}, {"a": 0})
    store.close()
