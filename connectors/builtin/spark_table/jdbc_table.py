"""A database table, divided as Spark's JDBC reader does it. Needs SQLAlchemy.

Spark reads a part with one query without an order, so a part that was half written can only be written again as a
whole. Here a part is read in the order of a unique key, some rows at a time, and its source offset is the last key:
reading resumes after it, and no row is repeated, however large the part is.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import Choice, ConnectorError, ParsedConfig, RetriableError, SourceOffset
from ringfence.connectors.api.schemas import struct
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.key_ranges import (
    RangePart,
    cut,
    from_json,
    parse_part,
    to_json,
    within_python,
)
from ringfence.connectors.builtin.spark_table.plan import Batch, Table
from ringfence.connectors.builtin.sql.database import Database, Login, explain
from ringfence.connectors.builtin.sql.settings import NUMERIC
from ringfence.connectors.builtin.sql.tables import describe_all, key_of, reflect_table
from ringfence.connectors.sdk.diagnosis import summarise
from ringfence.connectors.sdk.row_records import RowReader

_KINDS: Final[Sequence[tuple[type["sa.types.TypeEngine[Any]"], type]]] = (
    (sa.Float, float),  # a subclass of Numeric
    (sa.Integer, int),
    (sa.Numeric, Decimal),
    (sa.DateTime, datetime),
    (sa.Date, date),
    (sa.String, str),
    (sa.Uuid, UUID),
)
DIVISIBLE: Final = (int, date, datetime)
"""The types of columns whose ranges can be parts."""
LOGIN: Final = Login(URL, names.USER, names.PASSWORD)


class _Reflected(NamedTuple):
    """key: the columns that order the rows, the dividing column first; places: theirs in a row."""

    table: sa.Table
    key: Sequence["sa.Column[Any]"]
    places: Sequence[int]
    rows: RowReader


class JdbcTable(Table[RangePart]):
    """All rows of one table, each by the key that it has when its part is read."""

    def __init__(self, settings: ParsedConfig) -> None:
        self._settings = settings
        self._name = str(settings.get(names.DBTABLE) or "").strip()
        if not self._name:
            raise ConnectorError(f"{names.DBTABLE}: required, since {URL} names a database.")
        if "(" in self._name:
            raise ConnectorError(
                f"{names.DBTABLE} must be the name of a table. A query has no key to resume by; use SqlSource for "
                "queries."
            )
        self._database = open_database(settings)
        self._values = self._database.values()
        self._engine = self._database.engine(self._values)
        self._connection: Connection | None = None
        self._reflected: _Reflected | None = None
        self.address = f"{self._name} of {settings.string(URL)}"
        self.partition = {names.URL_KEY: settings.string(URL), names.DBTABLE: self._name}

    def summarise(self) -> str:
        table, key, *_ = self._reflect()
        columns = summarise("column", [str(one.name) for one in table.columns])
        return f"Table {self._name}, {columns}. Its parts are ranges of {key[0].name}."

    def check(self) -> None:
        key = self._reflect().key
        for setting in (names.LOWER, names.UPPER):
            self._read_bound(key[0], setting)

    def divide(self, plan: str, preview: bool) -> Iterator[RangePart]:
        key = self._reflect().key
        column, columns = key[0], [str(one.name) for one in key]
        if preview:
            yield RangePart(plan, columns, None, None, None, done=False)
            return
        lower, upper = (self._read_bound(column, setting) for setting in (names.LOWER, names.UPPER))
        if lower is None or upper is None:
            least, greatest = self._read_extremes(column)
            lower, upper = (least if lower is None else lower), (greatest if upper is None else upper)
        empty = lower is None or upper is None
        if not empty and lower > upper:
            raise ConnectorError(f"{names.LOWER} {to_json(lower)} is above {names.UPPER} {to_json(upper)}.")
        between = [] if empty else [to_json(one) for one in cut(lower, upper, self._settings.integer(names.COUNT))]
        for start, stop in pairwise([None, *between, None]):
            yield RangePart(plan, columns, start, stop, None, done=False)

    def parse_part(self, offset: SourceOffset) -> RangePart:
        return parse_part(offset)

    def read(self, part: RangePart, limit: int) -> Batch[RangePart]:
        table, key, places, rows_of = self._reflect()
        if [str(one.name) for one in key] != [*part.key]:
            raise ConnectorError(
                f"The plan for {self.address} orders rows by {', '.join(part.key)}, but the order would now be by "
                f"{', '.join(str(one.name) for one in key)}. Restore {names.COLUMN} or the table's key; or stop the "
                "connector, reset its offsets and resume it: then the whole table is written again."
            )
        statement = sa.select(table).where(*self._conditions(part, key)).order_by(*key).limit(limit)
        with self._errors() as connection:
            rows = self._values.fetch(connection, statement)
        columns: list[Sequence[object]] = [*zip(*rows, strict=True)] or [()] * len(rows_of.schema.fields)

        def after_row(number: int) -> RangePart:
            return part._replace(after=[to_json(rows[number][place]) for place in places])

        last = after_row(-1) if rows else part
        return Batch(rows_of.schema, columns, last._replace(done=len(rows) < limit), after_row, rows_of)

    def _read_extremes(self, column: "sa.Column[Any]") -> tuple[Any, Any]:
        """Return the least and the greatest value that Python's types hold, to divide what is between them."""
        finite = sa.select(sa.func.min(column), sa.func.max(column))
        if self._database.kind == "postgresql" and isinstance(column.type, sa.DateTime | sa.Date):
            finite = finite.where(sa.func.isfinite(column))
        with self._errors() as connection:
            ((least, greatest),) = self._values.fetch(connection, finite)
        kind, aware = kind_of(column), bool(getattr(column.type, "timezone", False))
        return within_python(least, kind, aware=aware), within_python(greatest, kind, aware=aware)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _conditions(self, part: RangePart, key: Sequence["sa.Column[Any]"]) -> Iterator["sa.ColumnElement[bool]"]:
        """The first column is compared separately, too, so that an index on it alone can be used."""
        column = key[0]
        try:
            if part.stop is not None:
                yield column < from_json(part.stop, kind_of(column))
            if part.after is not None:
                after = [from_json(value, kind_of(one)) for one, value in zip(key, part.after, strict=True)]
                bound = [sa.literal(value, one.type) for one, value in zip(key, after, strict=True)]
                yield column >= bound[0]
                yield sa.tuple_(*key) > sa.tuple_(*bound) if len(key) > 1 else column > bound[0]
            elif part.start is not None:
                yield column >= from_json(part.start, kind_of(column))
        except ValueError as error:
            raise ConnectorError(
                f"The source offset of a part of {self.address} does not fit the key {', '.join(part.key)}: {error}. "
                "Stop the connector and restore the offset, or reset all."
            ) from error

    def _read_bound(self, column: "sa.Column[Any]", setting: str) -> Any:
        text = str(self._settings.get(setting) or "").strip()
        if not text:
            return None
        try:
            bound = from_json(text, kind_of(column))
        except ValueError as error:
            raise ConnectorError(f"{setting} {text!r} is not a value of {column.name}: {error}.") from error
        zoned = isinstance(bound, datetime) and isinstance(column.type, sa.DateTime) and column.type.timezone
        return bound.replace(tzinfo=UTC) if zoned and not bound.tzinfo else bound

    def _reflect(self) -> "_Reflected":
        if self._reflected is None:
            schema, _, name = self._name.rpartition(".")
            try:
                with closing(self._database.engine().connect()) as connection:
                    table = reflect_table(connection, (schema or None, name))
                    unique = sa.inspect(connection).get_unique_constraints(name, schema=schema or None)
            except sa.exc.NoSuchTableError as error:
                raise ConnectorError(
                    f"{names.DBTABLE}: there is no table {self._name} that this user can see."
                ) from error
            except sa.exc.SQLAlchemyError as error:
                raise RetriableError(f"{self.address} cannot be read: {explain(error)}.") from error
            key = self._order(table, [one["column_names"] for one in unique])
            columns = describe_all(table, self._values, self._settings.string(NUMERIC))
            fields = struct({column: one.schema for column, one in columns}, str(table.name))
            value_of = [one.value_of for _, one in columns]
            topic = self._settings.string(names.TOPIC)
            reader = RowReader(f"The table {self._name}", topic, fields, value_of, key_of(table, key))
            places = [list(table.columns).index(one) for one in key]
            self._reflected = _Reflected(table, key, places, reader)
        return self._reflected

    def _order(self, table: sa.Table, unique: Sequence[Sequence[str | None]]) -> list["sa.Column[Any]"]:
        candidates = [[*table.primary_key.columns], *([table.columns[str(one)] for one in each] for each in unique)]
        key = next((each for each in candidates if each and not any(one.nullable for one in each)), None)
        if key is None:
            raise ConnectorError(
                f"The table {self._name} has no primary key, and no unique key of columns that are never null, so "
                "nothing identifies the rows that are written. Add a key; or use SqlSource."
            )
        name_of_column = str(self._settings.get(names.COLUMN) or "").strip() or str(key[0].name)
        column = table.columns.get(name_of_column)
        if column is None:
            raise ConnectorError(f"{names.COLUMN}: the table {self._name} has no column {name_of_column}.")
        if column.nullable or kind_of(column) not in DIVISIBLE:
            raise ConnectorError(
                f"{names.COLUMN}: ranges of the column {name_of_column} cannot be parts. Choose a column with "
                "integers, dates or times, and without nulls."
            )
        order = [column, *(one for one in key if one is not column)]
        for one in order:
            if kind_of(one) not in (*DIVISIBLE, Decimal, str, UUID):
                raise ConnectorError(
                    f"The table {self._name} has {one.name} ({one.type}) in its key: rows cannot be read in its "
                    "order. Keys may contain integers, decimals, strings, dates, times and UUIDs."
                )
        return order

    @contextmanager
    def _errors(self) -> Iterator[Connection]:
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            yield self._connection
        except sa.exc.SQLAlchemyError as error:
            self.close()
            raise RetriableError(f"{self.address} cannot be read: {explain(error)}.") from error


def open_database(settings: ParsedConfig) -> Database:
    """Return the database at the configured address. Raises `ConnectorError` for one whose tables are not divided."""
    if settings.string(URL).strip().startswith(f"{names.JDBC}sqlite:"):
        raise ConnectorError(f"{URL}: a SQLite file is read by one task. Use SqlSource for it.")
    return Database(settings, LOGIN)


def kind_of(column: "sa.Column[Any]") -> type | None:
    """Return the type of the column's values in Python; None if a key cannot have it."""
    if isinstance(column.type, sa.Enum):
        return None  # MySQL orders them by number, and compares them as strings
    return next((kind for type, kind in _KINDS if isinstance(column.type, type)), None)


MOST: Final = 500
"""The maximum number of tables to offer, from the user's own schema."""


def list_choices(settings: ParsedConfig) -> Mapping[str, Sequence[Choice]]:
    """Return choices for `dbtable`, and for `partitionColumn` if that names a table."""
    with closing(Database(settings, LOGIN).engine().connect()) as connection:
        choices = {names.DBTABLE: [Choice(name) for name in sorted(sa.inspect(connection).get_table_names())[:MOST]]}
        if table_name := str(settings.get(names.DBTABLE) or "").strip():
            schema, _, name = table_name.rpartition(".")
            table = sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=connection, resolve_fks=False)
            choices[names.COLUMN] = [
                Choice(str(one.name), str(one.type).lower())
                for one in table.columns
                if not one.nullable and kind_of(one) in DIVISIBLE
            ]
    return choices
