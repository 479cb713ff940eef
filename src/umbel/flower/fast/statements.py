"""Speaks the part of SQLAlchemy's language that Flower's busiest statements use, straight to SQLite.

Building and running a statement costs SQLAlchemy a millisecond, and a round needs a hundred of them.
The names below stand in for SQLAlchemy's in Flower's own methods (see `light`): the methods stay
Flower's, in the same transaction, on the same tables; only the way to the database is shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Self

Args = tuple[Any, ...]
Convert = Callable[[Any], Any]


def as_is(value: Any) -> Any:
    """Give the value: it needs no conversion."""
    return value


class Expression:
    """A piece of SQL with the values for its marks."""

    __slots__ = ("args", "bind", "sql", "table")
    __hash__ = object.__hash__

    def __init__(self, sql: str, args: Args = (), bind: Convert = as_is, table: str = "") -> None:
        self.sql = sql
        self.args = args
        self.bind = bind
        self.table = table

    def _with(self, operator: str, other: Any) -> Expression:
        if isinstance(other, Expression):
            sql, args = other.sql, other.args
        else:
            sql, args = "?", (self.bind(other),)
        return Expression(f"{self.sql} {operator} {sql}", self.args + args, as_is, self.table)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._with("=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._with("!=", other)

    def __lt__(self, other: Any) -> Expression:
        return self._with("<", other)

    def __le__(self, other: Any) -> Expression:
        return self._with("<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._with(">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._with(">=", other)

    def __add__(self, other: Any) -> Expression:
        return self._with("+", other)

    def __sub__(self, other: Any) -> Expression:
        return self._with("-", other)

    def __and__(self, other: Expression) -> Expression:
        return Expression(f"({self.sql} AND {other.sql})", self.args + other.args)

    def is_(self, _: None) -> Expression:
        """Compare with NULL."""
        return Expression(f"{self.sql} IS NULL", self.args)

    def is_not(self, _: None) -> Expression:
        """Compare with NULL."""
        return Expression(f"{self.sql} IS NOT NULL", self.args)

    def in_(self, values: Any) -> Expression:
        """Be one of the values, or of the rows of a select."""
        if isinstance(values, Select):
            sql, args = values.compiled()
        else:
            args = tuple(map(self.bind, values))
            sql = ", ".join("?" * len(args))
        return Expression(f"{self.sql} IN ({sql})", self.args + args)

    def asc(self) -> Expression:
        """Order upwards, as SQLite does."""
        return self


class Column(Expression):
    """A column of a table, with its way into the database and out of it."""

    __slots__ = ("key", "name", "read")
    __hash__ = object.__hash__

    def __init__(self, table: str, name: str, bind: Convert = as_is, read: Convert = as_is) -> None:
        super().__init__(f"{table}.{name}", (), bind, table)
        self.key = name
        self.name = name
        self.read = read


class Record:
    """A row by its columns' names."""

    def __init__(self, values: Iterable[tuple[str, Any]]) -> None:
        self.__dict__.update(values)


class Live(Record):
    """A row that is changed in the database when an attribute is set."""

    def __init__(
        self, values: Iterable[tuple[str, Any]], change: Callable[[str, Any], Any]
    ) -> None:
        super().__init__(values)
        self.__dict__["_change"] = change

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["_change"](name, value)
        self.__dict__[name] = value


class Table:
    """Stands in for one of Flower's mapped classes."""

    def __init__(self, model: Any, dialect: Any) -> None:
        self.model = model
        self.name = str(model.__table__.name)
        self.columns = {
            attribute.key: _column(self.name, attribute.columns[0], dialect)
            for attribute in model.__mapper__.column_attrs
        }
        self.items = tuple(self.columns.values())
        self.key = str(model.__mapper__.primary_key[0].name)

    def __getattr__(self, name: str) -> Column:
        try:
            return self.columns[name]
        except KeyError:
            raise AttributeError(name) from None

    def __call__(self, **values: Any) -> Insert:
        """Make a new row, to be added."""
        return Insert(self).values(**values)

    def record(self, row: Sequence[Any], at: int = 0) -> Record:
        """Read the row's values from a position on."""
        return Record((c.key, c.read(v)) for c, v in zip(self.items, row[at:], strict=False))


def _column(table: str, column: Any, dialect: Any) -> Column:
    if isinstance(column.type, import_module("sqlalchemy").LargeBinary):
        return Column(table, column.name)  # bytes both ways
    kind = column.type.dialect_impl(dialect)
    return Column(
        table,
        column.name,
        kind.bind_processor(dialect) or as_is,
        kind.result_processor(dialect, None) or as_is,
    )


Item = Column | Table | Expression


def _columns(items: Iterable[Item]) -> Iterator[Expression]:
    for item in items:
        if isinstance(item, Table):
            yield from item.items
        else:
            yield item


class Statement:
    """What can be run. Each step changes the statement itself: Flower uses each one once."""

    def __init__(self) -> None:
        self._where: list[Expression] = []
        self.items: tuple[Item, ...] = ()

    def where(self, *conditions: Expression) -> Self:
        """Narrow it."""
        self._where.extend(conditions)
        return self

    def execution_options(self, **_: Any) -> Self:
        """Nothing here is remembered, so there is nothing to refresh."""
        return self

    def returning(self, *items: Item) -> Self:
        """Give these of each changed row."""
        self.items = items
        return self

    def compiled(self) -> tuple[str, Args]:
        """Give the SQL and its values."""
        raise TypeError(type(self))

    def _conditions(self) -> tuple[str, Args]:
        if not self._where:
            return "", ()
        sql = " AND ".join(condition.sql for condition in self._where)
        return f" WHERE {sql}", sum((c.args for c in self._where), ())

    def _returned(self) -> str:
        if not self.items:
            return ""
        return " RETURNING " + ", ".join(c.sql.rpartition(".")[2] for c in _columns(self.items))


class Select(Statement):
    """`SELECT`; from the tables of what is selected."""

    def __init__(self, *items: Item) -> None:
        super().__init__()
        self.items = items
        self._source: tuple[str, Args] = ("", ())
        self._order: tuple[Expression, ...] = ()
        self._limit: int | None = None

    def join(self, table: Table, condition: Expression) -> Self:
        """Add a table."""
        self._source = (f" JOIN {table.name} ON {condition.sql}", condition.args)
        return self

    def order_by(self, *order: Expression) -> Self:
        """Order it."""
        self._order = order
        return self

    def limit(self, limit: int) -> Self:
        """Give so many at most."""
        self._limit = limit
        return self

    def exists(self) -> Expression:
        """Whether there is a row."""
        sql, args = self.compiled()
        return Expression(f"EXISTS ({sql})", args)

    def cte(self, name: str) -> Part:
        """Use it as a table."""
        return Part(name, self)

    def compiled(self) -> tuple[str, Args]:
        """Give the SQL and its values."""
        names = ", ".join(column.sql for column in _columns(self.items))
        conditions, args = self._conditions()
        join, join_args = self._source
        source, source_args = self._from(joined=bool(join))
        sql = f"SELECT {names} FROM {source}{join}{conditions}"  # noqa: S608  # values are marks
        if self._order:
            sql += " ORDER BY " + ", ".join(column.sql for column in self._order)
        if self._limit is not None:
            sql += f" LIMIT {int(self._limit)}"
        return sql, source_args + join_args + args

    def _from(self, *, joined: bool) -> tuple[str, Args]:
        first = self.items[0]
        if isinstance(first, Part.Column):
            return first.source
        if isinstance(first, Table):
            return first.name, ()
        tables = dict.fromkeys(
            i.name if isinstance(i, Table) else i.table for i in self.items[: 1 if joined else None]
        )
        names = [name for name in tables if name] or [self._where[0].table]
        return ", ".join(names), ()


class Part:
    """A select with a name, to select from."""

    class Column(Column):
        """One of its columns."""

        __slots__ = ("source",)
        source: tuple[str, Args]

    def __init__(self, name: str, select: Select) -> None:
        sql, args = select.compiled()
        self._name = name
        self._source = (f"({sql}) AS {name}", args)

    @property
    def c(self) -> Part:
        """Give its columns, as attributes."""
        return self

    def __getattr__(self, name: str) -> Part.Column:
        column = Part.Column(self._name, name)
        column.source = self._source
        return column


class Insert(Statement):
    """`INSERT`."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table
        self._rows: Sequence[Mapping[str, Any]] = ()
        self._conflict = ""

    def values(self, rows: Any = None, **named: Any) -> Self:
        """Say what: named values, a mapping, or many of these."""
        if rows is None:
            rows = named
        self._rows = (rows,) if isinstance(rows, Mapping) else rows
        return self

    def on_conflict_do_nothing(self, index_elements: Sequence[Any] = ()) -> Self:
        """Leave a row that is there."""
        self._conflict = f" ON CONFLICT {_index(index_elements)}DO NOTHING"
        return self

    def on_conflict_do_update(self, index_elements: Sequence[Any], set_: Mapping[str, Any]) -> Self:
        """Change a row that is there."""
        changes = ", ".join(f"{name} = {value.sql}" for name, value in set_.items())
        self._conflict = f" ON CONFLICT {_index(index_elements)}DO UPDATE SET {changes}"
        return self

    def compiled(self) -> tuple[str, Args]:
        """Give the SQL and its values."""
        columns = [self._table.columns[key] for key in self._rows[0]]
        marks = "(" + ", ".join("?" * len(columns)) + ")"
        names = ", ".join(column.name for column in columns)
        args = tuple(c.bind(row[c.key]) for row in self._rows for c in columns)
        rows = ", ".join([marks] * len(self._rows))
        sql = f"INSERT INTO {self._table.name} ({names}) VALUES {rows}{self._conflict}"  # noqa: S608  # values are marks
        return sql + self._returned(), args


def _index(columns: Sequence[Any]) -> str:
    return f"({', '.join(c.name for c in columns)}) " if columns else ""


class Update(Statement):
    """`UPDATE`."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table
        self._values: dict[str, Any] = {}

    def values(self, **values: Any) -> Self:
        """Say what becomes of which column."""
        self._values = values
        return self

    def compiled(self) -> tuple[str, Args]:
        """Give the SQL and its values."""
        changes: list[str] = []
        args: Args = ()
        for key, value in self._values.items():
            column = self._table.columns[key]
            if isinstance(value, Expression):
                changes.append(f"{column.name} = {value.sql}")
                args += value.args
            else:
                changes.append(f"{column.name} = ?")
                args += (column.bind(value),)
        conditions, values = self._conditions()
        sql = f"UPDATE {self._table.name} SET {', '.join(changes)}{conditions}"  # noqa: S608  # values are marks
        return sql + self._returned(), args + values


class Delete(Statement):
    """`DELETE`."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    def compiled(self) -> tuple[str, Args]:
        """Give the SQL and its values."""
        conditions, args = self._conditions()
        return f"DELETE FROM {self._table.name}{conditions}{self._returned()}", args  # noqa: S608  # values are marks


def exists(select: Select) -> Expression:
    """Whether the select has a row."""
    return select.exists()


def case(*when: tuple[Expression, Any], else_: Expression) -> Expression:
    """Choose a value."""
    sql = " ".join(f"WHEN {condition.sql} THEN ?" for condition, _ in when)
    args: Args = sum(((*condition.args, value) for condition, value in when), ())
    return Expression(f"CASE {sql} ELSE {else_.sql} END", args + else_.args)


class func:  # noqa: N801  # SQLAlchemy's name
    """The functions that are used."""

    @staticmethod
    def count() -> Expression:
        """Count rows."""
        return Expression("count(*)")
