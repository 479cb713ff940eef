"""Keeps large objects in files beside SuperLink's database, which keeps their names.

SQLite writes a large value twice and frees it page by page: a hundred megabytes cost it three seconds,
a file costs a tenth of one. The row is committed after the file is written and before it is taken
away, so a crash loses nothing that was acknowledged; files without a row go at the next start.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from umbel.files import ensure_private_folder
from umbel.flower.fast.light import Both

LARGE_BYTES = 128 << 10
MARK = b"umbel:file:"  # no object of Flower's begins so: they begin with the name of their kind

_PUT = (
    "UPDATE objects SET content = ?, is_available = 1 "
    "WHERE object_id = ? AND is_available = 0 RETURNING object_id"
)
_MARKS = "SELECT content FROM objects WHERE length(content) < 200 AND content >= ? AND content < ?"
_MARKS_BELOW = (
    "WITH RECURSIVE below(id) AS (VALUES (?) UNION"
    " SELECT child_id FROM object_children JOIN below ON parent_id = id) "
    "SELECT object_id, content FROM objects JOIN below ON object_id = id "
    "WHERE length(content) < 200 AND content >= ? AND content < ?"
)
_ROW = "SELECT 1 FROM objects WHERE object_id = ?"

_inner: ContextVar[bool] = ContextVar("inner", default=False)  # Flower deletes step by step


def install() -> None:
    """Let SuperLink's object store keep large objects in files."""
    module: Any = import_module("flwr.supercore.object_store.sql_object_store")
    store = module.SqlObjectStore
    store.put = _putting(store.put, module)
    store.get = _getting(store.get)
    store.delete = _deleting(store.delete)
    store.initialize = _sweeping(store.initialize)


def folder_of(store: Any) -> Path | None:
    """Say where this store's files are; None for one that is in memory."""
    return _folder_of(store.database_url)


@functools.cache
def _folder_of(url: str) -> Path | None:
    database = import_module("sqlalchemy").make_url(url).database
    return Path(f"{database}.objects") if database not in (None, "", ":memory:") else None


def _putting(stock: Any, module: Any) -> Any:
    @functools.wraps(stock)
    def put(self: Any, object_id: str, object_content: bytes) -> None:
        folder = folder_of(self)
        if object_content.startswith(MARK):
            raise ValueError("not an object")  # it would be taken for the name of a file
        if len(object_content) < LARGE_BYTES or folder is None:
            stock(self, object_id, object_content)
            return
        if self.verify:
            if module.get_object_id(object_content) != object_id:
                raise ValueError(f"Object ID {object_id} does not match content hash")
            module.validate_object_content(content=object_content)
        with self.session() as session:
            if not session.run(_ROW, (object_id,)):
                raise module.NoObjectInStoreError(
                    f"Object with ID '{object_id}' was not pre-registered."
                )
            name = f"{object_id}.{uuid4().hex}"
            (folder / name).write_bytes(object_content)
            mark = MARK + f"{len(object_content)}:{name}".encode()
            if not session.run(_PUT, (mark, object_id)):
                (folder / name).unlink()  # it is there already

    return put


def _getting(stock: Any) -> Any:
    @functools.wraps(stock)
    def get(self: Any, object_id: str) -> bytes | None:
        content: bytes | None = stock(self, object_id)
        if content is None or not content.startswith(MARK):
            return content
        folder, (size, name) = folder_of(self), _parsed(content)
        try:
            found = (folder / name).read_bytes() if folder else b""
        except FileNotFoundError:  # somebody took it away: the same as an unknown object
            return None
        return found if len(found) == size else None

    return get


def _deleting(stock: Any) -> Any:
    @functools.wraps(stock)
    def delete(self: Any, object_id: str) -> None:
        folder = folder_of(self)
        if _inner.get() or folder is None:
            stock(self, object_id)  # the outermost call looks after the files
            return
        with self.session() as session:
            marks = session.run(_MARKS_BELOW, (object_id, *_range()))
            token = _inner.set(True)
            try:
                stock(self, object_id)
            finally:
                _inner.reset(token)
            gone = [folder / _parsed(m)[1] for i, m in marks if not session.run(_ROW, (i,))]
            if gone:
                _unlink_after_commit(session, gone)

    return delete


def _sweeping(stock: Any) -> Any:
    @functools.wraps(stock)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> Any:
        tables = stock(self, *args, **kwargs)
        folder = folder_of(self)
        if folder is not None:
            ensure_private_folder(folder)
            with self.session() as session:
                kept = {_parsed(mark)[1] for (mark,) in session.run(_MARKS, _range())}
            _unlink(file for file in folder.iterdir() if file.name not in kept)
        return tables

    return initialize


def _unlink_after_commit(session: Both, files: list[Path]) -> None:
    event: Any = import_module("sqlalchemy").event
    event.listen(session.session, "after_commit", lambda _: _unlink(files), once=True)


def _unlink(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _range() -> tuple[bytes, bytes]:
    return MARK, MARK[:-1] + b";"  # the character after the colon


def _parsed(mark: bytes) -> tuple[int, str]:
    size, _, name = mark.removeprefix(MARK).decode().partition(":")
    return int(size), name
