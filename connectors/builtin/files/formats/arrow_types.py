"""Converts Arrow's types to Kafka Connect's schemas, and columns to values. Import it only if pyarrow is installed."""

from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from ringfence.connectors.api import DataException, Schema, SchemaType, Struct
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.files.formats import FormatError, make_distinct
from ringfence.connectors.builtin.files.settings import LONG, UNSIGNED, ValueOptions, repair_text
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.moments import (
    FIRST_DAY,
    LAST_DAY,
    MILLIS_PER_DAY,
    date_of_day,
    time_of_day,
    time_text,
    timestamp_of_millis,
)

Convert = Callable[[Any], list[object]]
"""Returns the values of an Arrow array. Raises `DataException` for a value that no record can hold."""

MOST_ELEMENTS: Final = 1_000_000
"""Of one list or map: a file of some kilobytes may have a list of billions."""


class Type(NamedTuple):
    """What a column becomes."""

    schema: Schema
    convert: Convert


_INTEGERS: Final[dict[Any, Schema]] = {
    pa.int8(): connect.INT8,
    pa.int16(): connect.INT16,
    pa.int32(): connect.INT32,
    pa.int64(): connect.INT64,
    pa.uint8(): connect.INT16,
    pa.uint16(): connect.INT32,
    pa.uint32(): connect.INT64,
}
_SAME: Final[dict[Any, Schema]] = {
    **_INTEGERS,
    pa.bool_(): connect.BOOLEAN,
    pa.float16(): connect.FLOAT32,
    pa.float32(): connect.FLOAT32,
    pa.float64(): connect.FLOAT64,
    pa.binary(): connect.BYTES,
    pa.large_binary(): connect.BYTES,
    pa.binary_view(): connect.BYTES,
    pa.null(): connect.STRING,
}
_DURATIONS: Final = {
    "s": "ringfence.time.SecondDuration",
    "ms": "ringfence.time.MilliDuration",
    "us": "io.debezium.time.MicroDuration",
    "ns": "io.debezium.time.NanoDuration",
}
_FINER: Final = {"us": "Micro", "ns": "Nano"}
"""Kafka Connect's own time types count milliseconds. For finer units, Debezium's schema names are used."""
_MOST_INT64: Final = (1 << 63) - 1


def to_connect(arrow: Any, name: str, options: ValueOptions | None = None) -> Type:
    """Return a column's schema, which is optional, and a function that converts its values. Raises `FormatError`."""
    return _Types(options or ValueOptions()).read(arrow, name)


class _Types:
    """Arrow's types under some options. All schemas are optional, but for the keys of maps."""

    def __init__(self, options: ValueOptions) -> None:
        self._options = options

    def read(self, arrow: Any, name: str) -> Type:
        """Return what a type becomes. name: the path of the column. Raises `FormatError`."""
        type = self._find(arrow, name)
        return Type(type.schema.but(optional=True), type.convert)

    def _find(self, arrow: Any, name: str) -> Type:  # noqa: C901 - a case for each type
        types = pa.types
        if arrow in _SAME:
            return Type(_SAME[arrow], _as_python)
        if types.is_string(arrow) or types.is_large_string(arrow) or arrow == pa.string_view():
            return Type(connect.STRING, self._texts)
        if types.is_uint64(arrow):
            return self._describe_unsigned()
        if types.is_fixed_size_binary(arrow):
            return Type(connect.BYTES, _as_python)
        if types.is_decimal(arrow):
            return Type(connect.decimal(arrow.scale), _as_python)
        if types.is_date(arrow):
            return Type(connect.DATE, _dates)
        if types.is_timestamp(arrow):
            return _moment(arrow, "Timestamp") or Type(connect.TIMESTAMP, _timestamps)
        if types.is_time(arrow):
            return _moment(arrow, "Time") or self._times()
        if types.is_duration(arrow):
            return Type(Schema(SchemaType.INT64, name=_DURATIONS[arrow.unit], version=1), _as_integers)
        if isinstance(arrow, pa.BaseExtensionType):
            return self._extension(arrow, name)
        return self._read_nested(arrow, name)

    def _read_nested(self, arrow: Any, name: str) -> Type:
        types = pa.types
        if types.is_dictionary(arrow):
            inner = self.read(arrow.value_type, name)
            return Type(inner.schema, lambda column: inner.convert(column.dictionary_decode()))
        if types.is_run_end_encoded(arrow):
            inner = self.read(arrow.value_type, name)
            return Type(inner.schema, lambda column: inner.convert(pc.run_end_decode(column)))
        if types.is_map(arrow):
            return self._map(arrow, name)
        if types.is_struct(arrow):
            return self._struct(arrow, name)
        for kind, split in _LISTS:
            if kind(arrow):
                return self._list(arrow, name, split)
        raise FormatError(f"its column {name} has the type {arrow}, which Kafka Connect's records do not support")

    def _extension(self, arrow: Any, name: str) -> Type:
        inner = self._find(arrow.storage_type, name)
        if arrow.extension_name == "arrow.uuid":
            return Type(connect.STRING, lambda column: _each(column.storage, _uuid))
        if arrow.extension_name == "arrow.bool8":
            return Type(connect.BOOLEAN, lambda column: _each(column.storage, bool))
        return Type(inner.schema, lambda column: inner.convert(column.storage))

    def _texts(self, column: Any) -> list[object]:
        try:
            return list(column.to_pylist())
        except UnicodeDecodeError:
            large = column.cast(pa.large_binary())
            return _each(large, lambda text: repair_text(text.decode(errors="surrogateescape"), self._options.bad_text))

    def _describe_unsigned(self) -> Type:
        if self._options.unsigned != LONG:
            return Type(connect.decimal(0), lambda column: _each(column, Decimal))
        if self._options.unsupported is Handling.TEXT:
            return Type(connect.STRING, lambda column: _each(column, str))
        return Type(connect.INT64, self._longs)

    def _longs(self, column: Any) -> list[object]:
        if _fits(column, 0, _MOST_INT64):
            return list(column.to_pylist())
        return _each(
            column, lambda number: number if number <= _MOST_INT64 else self._replace_unsupported(number, UNSIGNED)
        )

    def _times(self) -> Type:
        if self._options.unsupported is Handling.TEXT:
            return Type(connect.STRING, lambda column: _each(_milliseconds(column), time_text))
        return Type(connect.TIME, self._times_of)

    def _times_of(self, column: Any) -> list[object]:
        numbers = _milliseconds(column)
        if _fits(numbers, 0, MILLIS_PER_DAY - 1):
            return list(column.to_pylist())
        return _each(numbers, lambda number: self._time_of(number))

    def _time_of(self, number: int) -> object:
        at = time_of_day(number)
        return self._replace_unsupported(time_text(number)) if at is None else at

    def _replace_unsupported(self, value: object, *settings: str) -> object:
        if self._options.unsupported is Handling.NULL:
            return None
        raise refuse_value("Kafka Connect's type does not hold the value", value, *settings)

    def _list(self, arrow: Any, name: str, split: "_Split") -> Type:
        inner = self.read(arrow.value_type, f"{name}[]")

        def convert(column: Any) -> list[object]:
            values, bounds = split(column)
            items = inner.convert(values)
            return [
                items[start:end] if valid else None for valid, (start, end) in zip(_valid(column), bounds, strict=True)
            ]

        return Type(connect.array(inner.schema), convert)

    def _struct(self, arrow: Any, name: str) -> Type:
        names = make_distinct([field.name for field in arrow])
        parts = [self.read(field.type, f"{name}.{key}") for key, field in zip(names, arrow, strict=True)]
        inner = [(key, part.schema) for key, part in zip(names, parts, strict=True)]
        schema = Schema(SchemaType.STRUCT, fields=inner, optional=True)

        def convert(column: Any) -> list[object]:
            columns = [part.convert(each) for part, each in zip(parts, column.flatten(), strict=True)]
            rows: Iterable[tuple[object, ...]] = zip(*columns, strict=True) if columns else [()] * len(column)
            return [
                Struct.of(schema, list(row)) if valid else None for valid, row in zip(_valid(column), rows, strict=True)
            ]

        return Type(schema, convert)

    def _map(self, arrow: Any, name: str) -> Type:
        """Return what a map becomes: of a key that it has twice, the last value counts.

        A map whose keys are lists or structs becomes an array of structs, since Python's mappings have no such keys.
        """
        keys, items = self.read(arrow.key_type, f"{name}{{}}"), self.read(arrow.item_type, f"{name}{{}}")
        if not keys.schema.type.primitive:
            entry = pa.struct([pa.field("key", arrow.key_type), pa.field("value", arrow.item_type)])
            entries = pa.list_(pa.field("entries", entry))
            pairs_type = self.read(entries, name)
            return Type(pairs_type.schema, lambda column: pairs_type.convert(column.cast(entries)))

        def convert(column: Any) -> list[object]:
            start, end = _ends(column)
            all_keys = keys.convert(column.keys.slice(start, end - start))
            if None in all_keys:
                raise DataException("a key of the map is null", column=name, remedy="Correct the row")
            pairs = list(zip(all_keys, items.convert(column.items.slice(start, end - start)), strict=True))
            return [
                dict(pairs[a:b]) if valid else None
                for valid, (a, b) in zip(_valid(column), _bounds(column), strict=True)
            ]

        return Type(connect.mapping(keys.schema.but(optional=False), items.schema), convert)


def check_lists(column: Any) -> None:
    """Raise `FormatError` for a list or map that is too long to become Python values."""
    types = pa.types
    arrow = column.type
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_map(arrow):
        _check_longest(pc.max(pc.subtract(column.offsets[1:], column.offsets[:-1])).as_py())
        check_lists(column.items if types.is_map(arrow) else column.flatten())
    elif types.is_list_view(arrow) or types.is_large_list_view(arrow):
        _check_longest(pc.max(column.sizes).as_py())
        check_lists(column.values)
    elif types.is_fixed_size_list(arrow):
        _check_longest(arrow.list_size)
        check_lists(column.values)
    elif types.is_struct(arrow):
        for part in column.flatten():
            check_lists(part)


def _check_longest(length: int | None) -> None:
    if length is not None and length > MOST_ELEMENTS:
        raise FormatError(f"it has a list of {length:,} elements, and at most {MOST_ELEMENTS:,} are read")


_Split = Callable[[Any], tuple[Any, Iterable[tuple[int, int]]]]
"""Returns the elements of all lists, and where each list begins and ends among them."""


def _split_lists(column: Any) -> tuple[Any, Iterable[tuple[int, int]]]:
    start, end = _ends(column)
    return column.values.slice(start, end - start), _bounds(column)


def _split_fixed(column: Any) -> tuple[Any, Iterable[tuple[int, int]]]:
    size, count = column.type.list_size, len(column)
    values = column.values.slice(column.offset * size, count * size)
    return values, [(number * size, number * size + size) for number in range(count)]


def _split_views(column: Any) -> tuple[Any, Iterable[tuple[int, int]]]:
    starts, sizes = column.offsets.to_pylist(), column.sizes.to_pylist()
    return column.values, [(start, start + size) for start, size in zip(starts, sizes, strict=True)]


_LISTS: Final[tuple[tuple[Callable[[Any], bool], _Split], ...]] = (
    (pa.types.is_list, _split_lists),
    (pa.types.is_large_list, _split_lists),
    (pa.types.is_fixed_size_list, _split_fixed),
    (pa.types.is_list_view, _split_views),
    (pa.types.is_large_list_view, _split_views),
)


def _ends(column: Any) -> tuple[int, int]:
    """Return the first element of a column of lists, and the one after the last."""
    offsets = column.offsets
    return (offsets[0].as_py(), offsets[-1].as_py()) if len(column) else (0, 0)


def _bounds(column: Any) -> list[tuple[int, int]]:
    offsets = column.offsets.to_pylist()
    return [(start - offsets[0], end - offsets[0]) for start, end in pairwise(offsets)]


def _valid(column: Any) -> Iterable[bool]:
    return column.is_valid().to_pylist() if column.null_count else [True] * len(column)


def _as_python(column: Any) -> list[object]:
    return list(column.to_pylist())


def _as_integers(column: Any) -> list[object]:
    return list(column.cast(pa.int64()).to_pylist())


def _each(column: Any, value_of: Callable[[Any], object]) -> list[object]:
    return [None if value is None else value_of(value) for value in column.to_pylist()]


def _fits(column: Any, least: int, most: int) -> bool:
    """Return whether all values are in a range."""
    bounds = pc.min_max(column).as_py()
    return bounds["min"] is None or (least <= bounds["min"] and bounds["max"] <= most)


def _moment(arrow: Any, name: str) -> Type | None:
    """Return what a time in a finer unit becomes; None for milliseconds and seconds."""
    if arrow.unit not in _FINER:
        return None
    schema = Schema(SchemaType.INT64, name=f"io.debezium.time.{_FINER[arrow.unit]}{name}", version=1)
    return Type(schema, _as_integers)


def _dates(column: Any) -> list[object]:
    days = column.cast(pa.date32(), safe=False).cast(pa.int32())
    if _fits(days, FIRST_DAY, LAST_DAY):
        return list(column.to_pylist())
    return _each(days, date_of_day)


def _timestamps(column: Any) -> list[object]:
    """Return timestamps of milliseconds or seconds. Those of any zone are in UTC, since Arrow counts them so."""
    zone = None if column.type.tz is None else "UTC"
    utc = column.cast(pa.timestamp(column.type.unit, zone))
    numbers = utc.cast(pa.int64())
    unit = 1 if column.type.unit == "ms" else 1000
    if _fits(numbers, FIRST_DAY * MILLIS_PER_DAY // unit, (LAST_DAY + 1) * MILLIS_PER_DAY // unit - 1):
        return list(utc.to_pylist())
    return _each(numbers, lambda number: _timestamp(number * unit, zone))


def _timestamp(milliseconds: int, zone: str | None) -> object:
    if not -_MOST_INT64 - 1 <= milliseconds <= _MOST_INT64:
        raise DataException("the timestamp is beyond what 64 bits of milliseconds hold", remedy="Correct the row")
    at = timestamp_of_millis(milliseconds)
    return at.replace(tzinfo=None) if zone is None and isinstance(at, datetime) else at


def _milliseconds(column: Any) -> Any:
    """Return times of the day of milliseconds or seconds as milliseconds."""
    numbers = column.cast(pa.int32()).cast(pa.int64())
    return numbers if column.type.unit == "ms" else pc.multiply(numbers, 1000)


def _uuid(data: bytes) -> str:
    return str(UUID(bytes=data))
