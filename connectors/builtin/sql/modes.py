"""How rows are selected: one class per mode. To add a mode, add a class here and a line in `MODES`.

Each batch ends where reading can resume exactly: its offset says which rows were read, whatever transaction they are
committed in.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ConnectorError, ParsedConfig, SourceOffset
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database
from ringfence.connectors.builtin.sql.driver_values import DriverValues, Row, number_position
from ringfence.connectors.builtin.sql.time_order import offset_of, order_by_time, position_in
from ringfence.connectors.builtin.sql.time_texts import micros_of
from ringfence.connectors.builtin.sql.zones import load_zone

Relation = sa.Table | sa.Subquery
"""The source of the rows: a table, or a query."""


class Batch(NamedTuple):
    """Rows of one query.

    offset_of(number): the offset after the row with this number, the same for rows that belong together. more: whether
    to query again at once. end: the offset after the batch if no row can carry it.
    """

    rows: Sequence[Row]
    offset_of: Callable[[int], dict[str, object]]
    more: bool
    end: dict[str, object] | None = None


class Mode(ABC):
    """Reads one table or query in one mode."""

    exact: ClassVar[bool] = True
    """Whether every row that is read is read once."""

    def __init__(self, database: Database, table: Relation, settings: ParsedConfig, values: DriverValues) -> None:
        """values: those of the connections that `read` is called with. Raises `ConnectorError` if the table cannot be
        read in this mode.
        """
        if not len(table.columns):
            raise ConnectorError(f"The table {table.name} has no columns. Exclude it with {names.TABLES_EXCLUDE}.")
        self._database = database
        self._table = table
        self._values = values
        self._suffix = names.limit_of(settings)
        self._limit = min(settings.integer(names.BATCH_ROWS), self._suffix or sys.maxsize)
        self._zone = load_zone(settings.string(names.ZONE))
        self._delay_us = settings.integer(names.DELAY) * 1000
        self._initial = settings.get(names.INITIAL)

    @abstractmethod
    def read(self, connection: Connection, offset: SourceOffset | None) -> Batch:
        """Return the next rows. Raises `sqlalchemy.exc.SQLAlchemyError`."""

    @property
    def position_columns(self) -> "Sequence[sa.Column[Any]]":
        """Return the columns that tell rows apart in messages: those of the mode."""
        return ()

    def _rows(self, connection: Connection, statement: "sa.Select[Any]") -> list[Row]:
        return self._values.fetch(connection, statement)

    def _place(self, column: "sa.Column[Any]") -> int:
        return list(self._table.columns).index(column)


class Bulk(Mode):
    """Reads all rows, each time. Rows have no positions: a restart reads the table again."""

    exact: ClassVar[bool] = False

    def read(self, connection: Connection, offset: SourceOffset | None) -> Batch:
        rows = self._rows(connection, sa.select(self._table).limit(self._suffix))
        return Batch(rows, lambda _: {}, False)


class Incrementing(Mode):
    """Reads rows with larger numbers than before."""

    def __init__(self, database: Database, table: Relation, settings: ParsedConfig, values: DriverValues) -> None:
        super().__init__(database, table, settings, values)
        self._column = find_column(table, settings, names.INCREMENTING)
        self._at = self._place(self._column)

    def read(self, connection: Connection, offset: SourceOffset | None) -> Batch:
        statement = sa.select(self._table).order_by(self._column).limit(self._limit)
        if offset is not None:
            statement = statement.where(self._column > number_in(offset))
        else:
            statement = statement.where(self._column.is_not(None))
        rows = self._rows(connection, statement)
        return Batch(rows, lambda number: self._offset(rows[number]), len(rows) == self._limit)

    @property
    def position_columns(self) -> "Sequence[sa.Column[Any]]":
        return [self._column]

    def _offset(self, row: Row) -> dict[str, object]:
        return {"incrementing": number_position(row[self._at], str(self._column.name))}


class Timestamp(Mode):
    """Reads rows with later times than before. Rows with the same time are one batch: an offset cannot lie between
    them.
    """

    def __init__(self, database: Database, table: Relation, settings: ParsedConfig, values: DriverValues) -> None:
        super().__init__(database, table, settings, values)
        self._column = find_column(table, settings, names.TIMESTAMP)
        if not isinstance(self._column.type, sa.DateTime):
            raise ConnectorError(
                f"{names.TIMESTAMP}: the column {self._column.name} does not contain times with dates."
            )
        at = self._place(self._column)
        self._order = order_by_time(self._column, at, values, database.kind)

    @property
    def position_columns(self) -> "Sequence[sa.Column[Any]]":
        return [self._column]

    def read(self, connection: Connection, offset: SourceOffset | None) -> Batch:
        if offset is None and self._initial == -1:
            # Committed before anything is read, so that "now" stays the same.
            return Batch([], lambda _: {}, True, offset_of(self._now(connection)))
        self._order.find_form(connection)
        batch = self._read(connection, offset)
        return batch if self._order.suits(batch.rows) else self._read(connection, offset)

    def _read(self, connection: Connection, offset: SourceOffset | None) -> Batch:
        order = self._order
        # Rows with times from the bound on may still be added.
        statement = self._select_before(order.literal(self._now(connection) - self._delay_us))
        if (start := self._start(offset)) is not None:
            statement = statement.where(order.expression > order.literal(start))
        rows = self._rows(connection, statement.order_by(order.expression).limit(self._limit + 1))
        if len(rows) <= self._limit:
            return self._batch(rows, False)
        last = order.position(rows[-1])
        whole = next((place for place in range(len(rows) - 1, 0, -1) if order.position(rows[place - 1]) != last), 0)
        if whole:
            return self._batch(rows[:whole], True)
        same = sa.select(self._table).where(order.expression == order.literal(last))
        return self._batch(self._rows(connection, same), True)

    def _select_before(self, bound: Any) -> "sa.Select[Any]":
        return sa.select(self._table).where(self._order.expression < bound)

    def _batch(self, rows: Sequence[Row], more: bool) -> Batch:
        return Batch(rows, lambda number: offset_of(self._order.position(rows[number])), more)

    def _now(self, connection: Connection) -> int:
        return micros_of(self._database.read_now(connection), self._zone)

    def _start(self, offset: SourceOffset | None) -> int | None:
        if offset is not None and "timestamp" in offset:
            position = position_in(offset)
            if position is None:
                raise wrong_offset(offset)
            return position
        return None if self._initial is None else int(str(self._initial)) * 1000


class TimestampIncrementing(Timestamp):
    """Reads rows with later times than before, or with the same time and larger numbers."""

    def __init__(self, database: Database, table: Relation, settings: ParsedConfig, values: DriverValues) -> None:
        super().__init__(database, table, settings, values)
        self._number = find_column(table, settings, names.INCREMENTING)
        self._number_at = self._place(self._number)

    @property
    def position_columns(self) -> "Sequence[sa.Column[Any]]":
        return [self._column, self._number]

    def _read(self, connection: Connection, offset: SourceOffset | None) -> Batch:
        order, number = self._order, self._number
        statement = self._select_before(order.literal(self._now(connection) - self._delay_us))
        if (start := self._start(offset)) is not None:
            at = order.literal(start)
            if offset is not None and "incrementing" in offset:
                # The first half lets the database start in the index where the last query ended.
                later = sa.or_(order.expression > at, number > number_in(offset))
                statement = statement.where(order.expression >= at, later)
            else:
                statement = statement.where(order.expression > at)
        statement = statement.where(number.is_not(None)).order_by(order.expression, number).limit(self._limit)
        rows = self._rows(connection, statement)
        return Batch(rows, lambda number: self._offset(rows[number]), len(rows) == self._limit)

    def _offset(self, row: Row) -> dict[str, object]:
        number = number_position(row[self._number_at], str(self._number.name))
        return {"incrementing": number, **offset_of(self._order.position(row))}


class Xmin(Mode):
    """Reads the rows that PostgreSQL's transactions have written: all whose transaction id is between two horizons.

    A horizon is the oldest transaction that is still open: everything before it is decided and visible. So no row of a
    transaction that commits late is missed, whatever its values. Offset: `{"xmin": horizon}`; between batches of one
    horizon `{"xmin": from, "to": horizon, "after": [primary key]}`. The transaction ids of rows have 32 bits: a row
    that has not changed for four thousand million transactions may be read again, but none is missed.
    """

    _BITS: ClassVar[int] = (1 << 32) - 1

    def __init__(self, database: Database, table: Relation, settings: ParsedConfig, values: DriverValues) -> None:
        super().__init__(database, table, settings, values)
        if database.kind != "postgresql":
            raise ConnectorError(f"{names.MODE}={names.XMIN} is for PostgreSQL. Choose another mode.")
        if isinstance(table, sa.Subquery):
            raise ConnectorError(f"{names.MODE}={names.XMIN} reads tables, not a query. Choose another mode.")
        key = list(table.primary_key.columns)
        self._key = key if all(isinstance(one.type, sa.Integer | sa.String) for one in key) else []
        self._key_at = [self._place(one) for one in self._key]

    def read(self, connection: Connection, offset: SourceOffset | None) -> Batch:
        start, to, after = self._position(offset)
        if to is None:
            to = self._horizon(connection)
            if start is not None and to <= start:
                return Batch([], lambda _: {}, False)
        statement = sa.select(self._table).where(self._written_between(start, to))
        if self._key:
            statement = statement.order_by(*self._key).limit(self._limit)
            if after is not None:
                values = [sa.literal(value, one.type) for value, one in zip(after, self._key, strict=True)]
                statement = statement.where(sa.tuple_(*self._key) > sa.tuple_(*values))
        rows = self._rows(connection, statement)
        done: dict[str, object] = {"xmin": to}
        if not self._key:
            # These are read all or none: without a key there is no position between them.
            return Batch(rows, lambda _: done, False, None if rows else done)
        more, last = len(rows) == self._limit, len(rows) - 1
        return Batch(
            rows,
            lambda number: done if number == last and not more else self._within(start, to, rows[number]),
            more,
            None if rows else done,
        )

    def _within(self, start: int | None, to: int, row: Row) -> dict[str, object]:
        return {"xmin": start, "to": to, "after": [row[at] for at in self._key_at]}

    def _position(self, offset: SourceOffset | None) -> tuple[int | None, int | None, Sequence[object] | None]:
        if offset is None:
            return None, None, None
        start, to, after = offset.get("xmin"), offset.get("to"), offset.get("after")
        if to is None and isinstance(start, int):
            return start, None, None
        if (start is None or isinstance(start, int)) and isinstance(to, int) and isinstance(after, list):
            if len(after) == len(self._key):
                return start, to, after
            raise ConnectorError(
                f"The primary key of {self._table.name} was changed while the table was read. Stop the connector and "
                "reset the table's offset."
            )
        raise wrong_offset(offset)

    def _horizon(self, connection: Connection) -> int:
        return int(str(connection.scalar(sa.text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text"))))

    def _written_between(self, start: int | None, to: int) -> "sa.ColumnElement[bool]":
        """Compare in 32-bit arithmetic, as PostgreSQL compares transaction ids."""
        xmin = f'"{self._table.name}".xmin::text::bigint' if '"' not in self._table.name else "xmin::text::bigint"
        if start is None:
            # Visible and not between the horizon and the newest transaction: written before, however long ago.
            return sa.text(
                f"(({xmin} - {to}) & {self._BITS}) >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint - {to}"
            )  # type: ignore[return-value]
        return sa.text(f"(({xmin} - {start}) & {self._BITS}) < {to - start}")  # type: ignore[return-value]


MODES: Final[Mapping[str, type[Mode]]] = {
    names.BULK: Bulk,
    names.INCREMENTING_MODE: Incrementing,
    names.TIMESTAMP_MODE: Timestamp,
    names.BOTH_MODE: TimestampIncrementing,
    names.XMIN: Xmin,
}


def find_column(table: Relation, settings: ParsedConfig, setting: str) -> "sa.Column[Any]":
    """Return the column that a setting names. Raises `ConnectorError` if it is missing, or nullable in a table."""
    name = str(settings.get(setting) or "").strip()
    column = table.columns.get(name)
    query = isinstance(table, sa.Subquery)
    if not isinstance(column, sa.Column):
        what = "result of the query" if query else f"table {table.name}"
        raise ConnectorError(f"{setting}: the {what} has no column {name or '(none is set)'}.")
    if not query and _may_be_null(column) and settings.boolean(names.NON_NULL):
        raise ConnectorError(
            f"{setting}: the column {name} of {table.name} may be null, and rows with a null there would never be "
            f"read. Declare it NOT NULL, or set {names.NON_NULL}=false."
        )
    return column


def _may_be_null(column: "sa.Column[Any]") -> bool:
    """SQLite reports INTEGER PRIMARY KEY as nullable, although it is the row id."""
    alone = column.primary_key and len(column.table.primary_key.columns) == 1
    return bool(column.nullable) and not (alone and isinstance(column.type, sa.Integer))


def number_in(offset: SourceOffset) -> int:
    number = offset.get("incrementing")
    if not isinstance(number, int) or isinstance(number, bool):
        raise wrong_offset(offset)
    return number


def wrong_offset(offset: SourceOffset) -> ConnectorError:
    return ConnectorError(
        f"The offset {dict(offset)} does not belong to this mode. Set the former {names.MODE}, or stop the connector "
        "and reset its offsets."
    )
