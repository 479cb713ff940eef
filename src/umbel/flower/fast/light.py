"""Lets Flower's busiest methods reach SQLite by the short way of `statements`.

The methods stay Flower's own code: they are run with other names for `select`, `update` and so on.
All other methods use SQLAlchemy as ever, in the same session and the same transaction.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Self

from umbel.flower.fast import guard, statements
from umbel.flower.fast.statements import (
    Args,
    Column,
    Delete,
    Insert,
    Item,
    Live,
    Select,
    Statement,
    Table,
    Update,
    as_is,
)

# The methods and functions of a module that a round calls.
OBJECT_STORE = (
    "preregister",
    "get_object_tree",
    "put",
    "get",
    "delete",
    "_lock_objectstore_mutation",
)
CORE_STATE = (
    "start_session",
    "preregister_object_tree",
    "_claim_pending_object",
    "store_object",
    "get_object",
    "_cleanup_push_session",
    "acknowledge_task_heartbeat",
    "get_task_by_token",
    "_cleanup_expired_task_tokens",
    "_task_status_filter",
)
LINK_STATE = (
    "_lock_run",
    "store_message_ins",
    "store_message_res",
    "_check_stored_messages",
    "_claim_message_ins_rows",
    "_load_message_ins_rows",
    "get_message_res",
    "delete_messages",
    "get_nodes",
    "get_node_info",
    "get_node_id_by_public_key",
    "get_run_status",
    "acknowledge_node_heartbeat",
    "get_valid_message_ins",
    "store_traffic",
    "add_clientapp_runtime",
)
_NAMES = {
    "select": Select,
    "update": Update,
    "insert": Insert,
    "delete": Delete,
    "exists": statements.exists,
    "case": statements.case,
    "func": statements.func,
}


def install() -> None:
    """Relight the methods of SuperLink's state."""
    mixin: Any = import_module("flwr.supercore.sql_mixin").SqlMixin
    mixin.session = session_of_both_kinds(mixin.session)
    mixin.dialect_insert = _insert_of_both_kinds(mixin.dialect_insert)
    core: Any = import_module("flwr.supercore.corestate.sql_corestate")
    core.SqlCoreState.dialect_insert = _insert_of_both_kinds(core.SqlCoreState.dialect_insert)
    store: Any = import_module("flwr.supercore.object_store.sql_object_store")
    link: Any = import_module("flwr.server.superlink.linkstate.sql_linkstate")
    _relight(store, store.SqlObjectStore, OBJECT_STORE)
    _relight(core, core.SqlCoreState, CORE_STATE)
    _relight(link, link.SqlLinkState, LINK_STATE)


def _relight(module: ModuleType, owner: Any, names: Sequence[str]) -> None:
    """Let these methods, and functions that they use, find our names instead of SQLAlchemy's."""
    dialect: Any = import_module("sqlalchemy.dialects.sqlite.pysqlite").dialect(dbapi=sqlite3)
    known = dict(vars(module))
    for name, value in vars(module).items():
        if hasattr(value, "__mapper__"):
            known[name] = Table(value, dialect)
        elif name in _NAMES:
            known[name] = _NAMES[name]
    for name in names:
        stock = vars(owner).get(name) or known[name]
        lit = FunctionType(
            stock.__code__, known, stock.__name__, stock.__defaults__, stock.__closure__
        )
        lit.__kwdefaults__ = stock.__kwdefaults__
        if name in vars(owner):
            setattr(owner, name, functools.update_wrapper(lit, stock))
        else:
            known[name] = lit


def session_of_both_kinds(stock: Any) -> Any:
    """Let sessions take statements of both kinds."""
    open_sessions: Any = import_module("flwr.supercore.sql_mixin")._current_sessions  # noqa: SLF001

    @contextmanager
    def outermost(self: Any) -> Iterator[Both]:
        with stock(self) as inner:
            inner.info[Both] = Both(inner)
            yield inner.info[Both]

    @functools.wraps(stock)
    def session(self: Any) -> Any:
        inner = (open_sessions.get() or {}).get(self._session_scope)
        return outermost(self) if inner is None else inner.info[Both]

    return session


def _insert_of_both_kinds(stock: Any) -> Any:
    @functools.wraps(stock)
    def dialect_insert(self: Any, table: Any) -> Any:
        return Insert(table) if isinstance(table, Table) else stock(self, table)

    return dialect_insert


class Rows:
    """A result."""

    def __init__(self, items: Sequence[Item], rows: Sequence[Any]) -> None:
        self._items = items
        self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> Sequence[Any]:
        """Give all rows."""
        return self._rows

    def first(self) -> Any:
        """Give the first row, if there is one."""
        return self._rows[0] if self._rows else None

    def mappings(self) -> Rows:
        """Give rows by name."""
        names = [item.key for item in self._items]  # type: ignore[union-attr]
        return Rows(self._items, [dict(zip(names, row, strict=True)) for row in self._rows])

    def one_or_none(self) -> Any:
        """Give the only row, if there is one."""
        (row,) = self._rows or (None,)
        return row


class Both:
    """A SQLAlchemy session that also takes our statements, in the same transaction."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        """Go on in a transaction that is open: who opened it ends it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it open."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def run(self, sql: str, args: Args | Mapping[str, Any] = ()) -> list[Any]:
        """Run plain SQL."""
        guard.took(guard.Way.LIGHT)
        session = self.session
        session.flush()  # what SQLAlchemy has not written yet
        if self._connection is None:
            self._connection = session.connection().connection.driver_connection
        try:
            rows = self._connection.execute(sql, args).fetchall()
        except sqlite3.Error as error:
            failed: Any = import_module("sqlalchemy.exc").DBAPIError
            raise failed.instance(sql, None, error, sqlite3.Error) from error
        if session.identity_map and not sql.startswith("SELECT"):
            session.expire_all()  # what SQLAlchemy remembers may have changed
        return rows

    def execute(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a statement of either kind."""
        if not isinstance(statement, Statement):
            return self.session.execute(statement, *args, **kwargs)
        return Rows(statement.items, [_decoded(statement.items, r) for r in self._rows(statement)])

    def scalars(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        """Give the first of each row."""
        if not isinstance(statement, Statement):
            return self.session.scalars(statement, *args, **kwargs)
        first = statement.items[:1]
        rows = self._rows(statement)
        if first and isinstance(first[0], Table):
            return Rows(first, [first[0].record(row) for row in rows])
        read = first[0].read if isinstance(first[0], Column) else as_is
        return Rows(first, [read(row[0]) for row in rows])

    def scalar(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        """Give the first of the first row."""
        if not isinstance(statement, Statement):
            return self.session.scalar(statement, *args, **kwargs)
        return self.scalars(statement).first()

    def get(self, table: Any, key: Any, **kwargs: Any) -> Any:
        """Give the row with this primary key."""
        if not isinstance(table, Table):
            return self.session.get(table, key, **kwargs)
        match = table.columns[table.key] == key
        rows = self._rows(Select(table).where(match))
        if not rows:
            return None

        def change(name: str, value: Any) -> None:
            self._rows(Update(table).where(match).values(**{name: value}))

        return Live(vars(table.record(rows[0])).items(), change)

    def add(self, row: Any) -> None:
        """Insert a row."""
        if isinstance(row, Insert):
            self._rows(row)
        else:
            self.session.add(row)

    def _rows(self, statement: Statement) -> list[Any]:
        return self.run(*statement.compiled())


def _decoded(items: Sequence[Item], row: Sequence[Any]) -> tuple[Any, ...]:
    values, at = [], 0
    for item in items:
        if isinstance(item, Table):
            values.append(item.record(row, at))
            at += len(item.items)
        else:
            values.append(item.read(row[at]) if isinstance(item, Column) else row[at])
            at += 1
    return tuple(values)
