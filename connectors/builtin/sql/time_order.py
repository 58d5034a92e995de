"""The order of rows by a column of times: how a position is compared with the column."""

import re
from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import SourceOffset
from ringfence.connectors.builtin.sql.driver_values import DriverValues, Row
from ringfence.connectors.builtin.sql.sqlite_values import MICROS, clip
from ringfence.connectors.builtin.sql.time_texts import (
    BEGINNING,
    END,
    INFINITE_MS,
    as_datetime,
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


class _Form(NamedTuple):
    """The form of all times in a column of SQLite. pattern: for GLOB; expression: the same in Python."""

    pattern: str
    expression: re.Pattern[str]
    separator: str
    digits: int
    suffix: str


_TEXT: Final = re.compile(r"\d{4}-\d\d-\d\d([ T])\d\d:\d\d:\d\d(?:\.(\d{1,6}))?(Z?)", re.ASCII)


def _form_of(value: object) -> _Form | None:
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    digit, fraction = "[0-9]", match[2] or ""
    point = "." if fraction else ""
    day, time = "-".join([digit * 4, digit * 2, digit * 2]), ":".join([digit * 2] * 3)
    pattern = f"{day}{match[1]}{time}{point}{digit * len(fraction)}{match[3]}"
    expression = re.compile(pattern.replace(".", r"\."))
    return _Form(pattern, expression, match[1], len(fraction), match[3])


class SqliteTimeOrder(TimeOrder):
    """Times may be texts of several forms, integers, reals, and no times at all; the latter come first.

    Texts of one form are in the order of their times, so that an index on the column can be used. All else is compared
    by a function, for which each query reads the whole table.
    """

    def __init__(self, column: "sa.Column[Any]", at: int, values: DriverValues) -> None:
        super().__init__(column, at, values)
        self._form: _Form | None = None
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
        form = _form_of(connection.scalar(sa.select(column).where(self._column.is_not(None)).limit(1)))
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
