"""How rows are selected: one class per mode. To add a mode, add a class here and a line in `MODES`.

Each batch ends where reading can resume exactly: its offset says which rows were read, whatever transaction they are
committed in. A `TimeOrder` says how a position is compared with a column of times.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import Any, ClassVar, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import ConnectorError, ParsedConfig, SourceOffset
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database
from ringfence.connectors.builtin.sql.driver_values import DriverValues, Row, number_position
from ringfence.connectors.builtin.sql.settings import load_zone
from ringfence.connectors.builtin.sql.sqlite_values import MICROS, clip
from ringfence.connectors.builtin.sql.time_texts import (
    BEGINNING,
    END,
    INFINITE_MS,
    as_datetime,
    micros_of,
    text_of_micros,
    to_local,
)

_INFINITE: Final = {milliseconds * 1000: text for text, milliseconds in INFINITE_MS.items()}
_ZEROS: Final = 0
"""As a number, what MySQL's dates of zeros are."""


def position_in(offset: SourceOffset) -> int | None:
    """Return the position of an offset; None if it has none."""
    milliseconds, nanos = offset.get("timestamp"), offset.get("timestamp_nanos")
    if not isinstance(milliseconds, int):
        return None
    nanos = nanos if isinstance(nanos, int) else milliseconds % 1000 * 1_000_000
    return milliseconds // 1000 * 1_000_000 + nanos // 1000


def offset_of(position: int) -> dict[str, object]:
    """Return `{"timestamp": milliseconds, "timestamp_nanos": nanoseconds within the second}`."""
    return {"timestamp": position // 1000, "timestamp_nanos": position % 1_000_000 * 1000}


class TimeOrder:
    """For databases whose columns of times hold only such."""

    def __init__(self, column: "sa.Column[Any]", at: int, values: DriverValues) -> None:
        """at: the column's place in a row."""
        self._column = column
        self._at = at
        self._values = values
        self._naive = not getattr(column.type, "timezone", False)

    @property
    def expression(self) -> "sa.ColumnElement[Any]":
        """What rows are ordered by."""
        return self._column

    def find_form(self, connection: Connection) -> None:
        """Find out how the column can be compared."""

    def suits(self, rows: Sequence[Row]) -> bool:
        """Return whether the rows could be compared as they were. If not, read them again."""
        return True

    def position(self, row: Row) -> int:
        """Return the row's position in microseconds. Raises `ConnectorError`."""
        return self._values.position(row[self._at])

    def literal(self, position: int) -> Any:
        """Return what to compare `expression` with."""
        if (infinite := _INFINITE.get(position)) is not None:
            return sa.literal(infinite, self._column.type)
        zone = self._values.zone if self._naive else UTC
        local = to_local(position, zone)
        moment = as_datetime(local)
        if moment is None:
            return sa.literal(_as_postgres(local) if self._naive else f"{_as_postgres(local)}+00", self._column.type)
        return sa.literal(moment.replace(tzinfo=None) if self._naive else moment, self._column.type)


class MySqlTimeOrder(TimeOrder):
    """Dates of zeros come first."""

    def literal(self, position: int) -> Any:
        return sa.literal(_ZEROS, sa.Integer) if position == BEGINNING else super().literal(position)


class _TimeForm(NamedTuple):
    """The form of all times in a column of SQLite. pattern: for GLOB; expression: the same in Python."""

    pattern: str
    expression: re.Pattern[str]
    separator: str
    digits: int
    suffix: str


_TEXT: Final = re.compile(r"\d{4}-\d\d-\d\d([ T])\d\d:\d\d:\d\d(?:\.(\d{1,6}))?(Z?)", re.ASCII)


def _time_form(value: object) -> _TimeForm | None:
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    digit, fraction = "[0-9]", match[2] or ""
    point = "." if fraction else ""
    day, time = "-".join([digit * 4, digit * 2, digit * 2]), ":".join([digit * 2] * 3)
    pattern = f"{day}{match[1]}{time}{point}{digit * len(fraction)}{match[3]}"
    expression = re.compile(pattern.replace(".", r"\."))
    return _TimeForm(pattern, expression, match[1], len(fraction), match[3])


class SqliteTimeOrder(TimeOrder):
    """Times may be texts of several forms, integers, reals, and no times at all; the latter come first.

    Texts of one form are in the order of their times, so that an index on the column can be used. All else is compared
    by a function, for which each query reads the whole table.
    """

    def __init__(self, column: "sa.Column[Any]", at: int, values: DriverValues) -> None:
        super().__init__(column, at, values)
        self._form: _TimeForm | None = None
        self._mixed = False

    @property
    def expression(self) -> "sa.ColumnElement[Any]":
        if self._form is not None:
            return sa.type_coerce(self._column, sa.String())
        return sa.Function(MICROS, sa.type_coerce(self._column, sa.String()), type_=sa.BigInteger())

    def find_form(self, connection: Connection) -> None:
        if self._form is not None or self._mixed:
            return
        column = sa.type_coerce(self._column, sa.String())
        form = _time_form(connection.scalar(sa.select(column).where(self._column.is_not(None)).limit(1)))
        if form is None:
            return
        others = sa.or_(sa.func.typeof(self._column) != "text", column.op("NOT GLOB", is_comparison=True)(form.pattern))
        other = connection.execute(sa.select(column).where(self._column.is_not(None), others).limit(1)).first()
        self._form, self._mixed = (form, False) if other is None else (None, True)

    def suits(self, rows: Sequence[Row]) -> bool:
        if self._form is None:
            return True
        at, match = self._at, self._form.expression.fullmatch
        if all(row[at].__class__ is str and match(row[at]) for row in rows):
            return True
        self._form, self._mixed = None, True
        return False

    def literal(self, position: int) -> Any:
        if self._form is None:
            return clip(position)
        if position in (BEGINNING, END):
            return "" if position == BEGINNING else "~"
        zone = UTC if self._form.suffix else self._values.zone
        text = text_of_micros(to_local(position, zone)).replace(" ", self._form.separator)
        whole, _, fraction = text.partition(".")
        digits = self._form.digits
        return f"{whole}.{fraction[:digits]}{self._form.suffix}" if digits else f"{whole}{self._form.suffix}"


def order_by_time(column: "sa.Column[Any]", at: int, values: DriverValues, kind: str) -> TimeOrder:
    """Return the order of a column. kind: of database."""
    kinds = {"sqlite": SqliteTimeOrder, "postgresql": TimeOrder}
    return kinds.get(kind, MySqlTimeOrder)(column, at, values)


def _as_postgres(micros: int) -> str:
    """Return a moment outside the years 1 to 9999 as PostgreSQL reads it."""
    text = text_of_micros(micros)
    if not text.startswith("-") and not text.startswith("0000"):
        return text.removeprefix("+")
    year, rest = text.removeprefix("-").split("-", 1)
    return f"{int(year) + 1:04d}-{rest} BC"


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
