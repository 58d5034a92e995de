"""Parts of a database table: ranges of one column, each read in the order of a unique key."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from ringfence.connectors.api import SourceOffset
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.plan import part_error
from ringfence.connectors.builtin.sql.time_texts import (
    BEGINNING,
    INFINITE_MS,
    as_datetime,
    micros_of_text,
    parse_moment,
)

Json = str | int | None
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - for columns without a time zone
_LIMITS: Final = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
_MICROSECOND: Final = timedelta(microseconds=1)


class RangePart(NamedTuple):
    """The rows whose first key column is at least `start` and below `stop`; null: no such bound.

    key: the columns that order the rows. after: their values in the last row that was read.
    """

    plan: str
    key: Sequence[str]
    start: Json
    stop: Json
    after: Sequence[Json] | None
    done: bool

    def as_json(self) -> dict[str, object]:
        return {**self._asdict(), names.KEY: [*self.key], names.AFTER: self.after and [*self.after]}


def parse_part(offset: SourceOffset) -> RangePart:
    """Parse a source offset. Raises `ConnectorError`."""
    plan, key, after, done = (offset.get(name) for name in (names.PLAN, names.KEY, names.AFTER, names.DONE))
    start, stop = offset.get(names.START), offset.get(names.STOP)
    right = (
        isinstance(plan, str)
        and isinstance(key, list)
        and key
        and all(isinstance(one, str) for one in key)
        and (after is None or (isinstance(after, list) and len(after) == len(key) and all(map(_is_value, after))))
        and (start is None or _is_value(start))
        and (stop is None or _is_value(stop))
        and isinstance(done, bool)
    )
    if right:
        return RangePart(plan, key, start, stop, after, done)  # type: ignore[arg-type]
    raise part_error(offset, RangePart._fields, "with a value in after for each column of the key")


def _is_value(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def to_json(value: Any) -> Json:
    """Return a key column's value in the form of source offsets."""
    if isinstance(value, int | str):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def from_json(value: Json, kind: type | None) -> Any:
    """Do the inverse. kind: the type of the column's values. Raises ValueError."""
    if kind is int:
        return int(value or 0)
    if kind is str:
        return value
    if kind in (date, datetime):
        try:
            return kind.fromisoformat(str(value))
        except ValueError:
            return _distant(str(value))
    return UUID(str(value)) if kind is UUID else Decimal(str(value))


def _distant(text: str) -> str:
    """Return the text of a time that Python's classes do not hold. Raises ValueError unless it is one."""
    if text not in INFINITE_MS:
        parse_moment(text)
    return text


def within_python(value: Any, kind: type | None, *, aware: bool) -> Any:
    """Return a least or greatest time as Python's class, which holds the years 1 to 9999, or its nearest value.

    value: also as text, or None. aware: whether the column's times have a time zone.
    """
    if not isinstance(value, str) or kind not in (date, datetime):
        return value
    try:
        micros = micros_of_text(value, UTC)
    except ValueError:
        micros = BEGINNING  # a date of zeros
    moment = as_datetime(micros) or _LIMITS[micros > 0]
    if kind is date:
        return moment.date()
    return moment if aware else moment.replace(tzinfo=None)


def cut(lower: Any, upper: Any, count: int) -> list[Any]:
    """Return the bounds between the parts, in order: at most `count` - 1 values of the column's type."""
    low, high = _to_number(lower), _to_number(upper)
    places = sorted({low + (high - low) * number // count for number in range(1, count)} - {low})
    return [_of_number(place, lower) for place in places]


def _to_number(value: Any) -> int:
    if isinstance(value, datetime):
        naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (naive - _EPOCH) // _MICROSECOND
    return value.toordinal() if isinstance(value, date) else int(value)


def _of_number(number: int, like: Any) -> Any:
    if isinstance(like, datetime):
        return _EPOCH.replace(tzinfo=UTC if like.tzinfo else None) + number * _MICROSECOND
    return date.fromordinal(number) if isinstance(like, date) else number
