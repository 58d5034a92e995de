"""Avro object container files: records with the schema in the file, whose types become Kafka Connect's."""

from collections.abc import Callable, Iterator, Mapping
from datetime import time
from decimal import Decimal
from struct import unpack
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple
from uuid import UUID

from ringfence.connectors.api import DataException, ParsedConfig, Schema, SchemaType, Struct
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.files.formats import FormatError, FormatReader, Rows, Unreadable
from ringfence.connectors.builtin.files.settings import ValueOptions, options_of, repair_texts
from ringfence.connectors.sdk.row_records import convert_value, row_text
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.moments import date_of_day, time_of_day, time_text, timestamp_of_millis

_UUID_BYTES: Final = 16
_DURATION_BYTES: Final = 12
ValueOf = Callable[[Any], Any]

_PLAIN: Final = {
    "null": connect.STRING.but(optional=True),
    "boolean": connect.BOOLEAN,
    "int": connect.INT32,
    "long": connect.INT64,
    "float": connect.FLOAT32,
    "double": connect.FLOAT64,
    "string": connect.STRING,
    "bytes": connect.BYTES,
    "fixed": connect.BYTES,
    "enum": connect.STRING,
}
_NAMES: Final = {
    "time-micros": "MicroTime",
    "timestamp-micros": "MicroTimestamp",
    "timestamp-nanos": "NanoTimestamp",
    "local-timestamp-micros": "MicroTimestamp",
    "local-timestamp-nanos": "NanoTimestamp",
}
"""Kafka Connect's own time types count milliseconds. For finer units, Debezium's schema names are used."""
_INTERVAL: Final = Schema(SchemaType.STRING, name="io.debezium.time.Interval", version=1)


def to_connect(avro: Any, options: ValueOptions | None = None) -> tuple[Schema, Callable[[Any], Struct]]:
    """Return the schema of a file's records, and a function that converts a record that was decoded without regard to
    logical types; it raises `DataException`. Raises `FormatError`.
    """
    if not isinstance(avro, dict) or avro.get("type") != "record":
        raise FormatError("its schema is not a record")
    schema, value_of = _Schemas(options or ValueOptions()).read(avro)
    assert value_of is not None  # always set for a record
    return schema, value_of


class _Schemas:
    """The schemas of one file. A named type is known after its definition."""

    def __init__(self, options: ValueOptions) -> None:
        self._options = options
        self._types: dict[str, tuple[Schema, ValueOf | None]] = {}

    def read(self, avro: Any) -> tuple[Schema, ValueOf | None]:
        """Return the schema, and the function that converts its values; None if decoded values fit as they are."""
        if isinstance(avro, list):
            return self._union(avro)
        if isinstance(avro, str):
            if avro in _PLAIN:
                return _PLAIN[avro], None
            if avro in self._types:
                return self._types[avro]
            raise FormatError(f"its schema contains itself ({avro}), which Kafka Connect's schemas cannot")
        kind = avro["type"]
        if isinstance(kind, dict | list):
            return self.read(kind)
        result = self._read(kind, avro)
        if "name" in avro:
            self._types[avro["name"]] = result
        return result

    def _read(self, kind: str, avro: Mapping[str, Any]) -> tuple[Schema, ValueOf | None]:
        logical = self._logical(kind, avro)
        if logical is not None:
            return logical
        if kind == "record":
            return self._record(avro)
        if kind == "array":
            schema, value_of = self.read(avro["items"])
            return connect.array(schema), value_of and _list_of(value_of)
        if kind == "map":
            schema, value_of = self.read(avro["values"])
            return connect.mapping(connect.STRING, schema), value_of and _map_of(value_of)
        return self.read(kind)

    def _logical(self, kind: str, avro: Mapping[str, Any]) -> tuple[Schema, ValueOf | None] | None:
        """Return what a logical type becomes; None if there is none, or none for this type: then it does not count."""
        match kind, avro.get("logicalType"):
            case "bytes" | "fixed", "decimal":
                scale = int(avro.get("scale", 0))
                return connect.decimal(scale), lambda data: _decimal(data, scale)
            case "int", "date":
                return connect.DATE, date_of_day
            case "int", "time-millis":
                if self._options.unsupported is Handling.TEXT:
                    return connect.STRING, time_text
                optional = self._options.unsupported is Handling.NULL
                return connect.TIME.but(optional=optional), self._time
            case "long", "timestamp-millis" | "local-timestamp-millis":
                return connect.TIMESTAMP, timestamp_of_millis
            case "long", str(name) if name in _NAMES:
                return Schema(SchemaType.INT64, name=f"io.debezium.time.{_NAMES[name]}", version=1), None
            case "string", "uuid":
                return connect.STRING, None
            case "fixed", "uuid" if avro.get("size") == _UUID_BYTES:
                return connect.STRING, lambda data: str(UUID(bytes=data))
            case "fixed", "duration" if avro.get("size") == _DURATION_BYTES:
                return _INTERVAL, _interval
        return None

    def _time(self, milliseconds: int) -> time | None:
        at = time_of_day(milliseconds)
        if at is None and self._options.unsupported is Handling.FAIL:
            raise refuse_value("Kafka Connect's type does not hold the time of the day", time_text(milliseconds))
        return at

    def _record(self, avro: Mapping[str, Any]) -> tuple[Schema, ValueOf]:
        fields = [(field["name"], *self.read(field["type"])) for field in avro["fields"]]
        schema = connect.struct({name: schema for name, schema, _ in fields}, avro["name"])
        plan = [(name, value_of) for name, _, value_of in fields]

        def make(record: Mapping[str, Any]) -> Struct:
            try:
                return Struct.of(
                    schema, [record[name] if value_of is None else value_of(record[name]) for name, value_of in plan]
                )
            except (DataException, ValueError, ArithmeticError):
                return Struct.of(
                    schema,
                    [
                        record[name] if value_of is None else convert_value(value_of, record[name], name)
                        for name, value_of in plan
                    ],
                )

        return schema, make

    def _union(self, avro: list[Any]) -> tuple[Schema, ValueOf | None]:
        """Convert a union of null and one other type to an optional schema. Kafka Connect has no other unions."""
        others = [each for each in avro if each != "null"]
        if avro and not others:
            return _PLAIN["null"], None
        if not others or len(others) > 1:
            raise FormatError("its schema has a union of several types, which Kafka Connect's schemas do not support")
        schema, value_of = self.read(others[0])
        if len(others) == len(avro):
            return schema, value_of
        optional = schema.but(optional=True)
        if value_of is None:
            return optional, None
        if schema.type is SchemaType.STRUCT:  # a struct contains its own schema
            return optional, lambda value: None if value is None else Struct.of(optional, [*value_of(value).values])
        return optional, lambda value: None if value is None else value_of(value)


def _list_of(value_of: ValueOf) -> ValueOf:
    return lambda values: [value_of(each) for each in values]


def _map_of(value_of: ValueOf) -> ValueOf:
    return lambda values: {key: value_of(each) for key, each in values.items()}


def _decimal(data: bytes, scale: int) -> Decimal:
    """Return the exact number: operations of Decimal would round it."""
    return Decimal(f"{int.from_bytes(data, 'big', signed=True)}e-{scale}")


def _interval(data: bytes) -> str:
    """Return months, days and milliseconds in ISO 8601."""
    months, days, milliseconds = unpack("<3I", data)
    seconds, rest = divmod(milliseconds, 1000)
    parts = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    fraction = f".{rest:03}".rstrip("0") if rest else ""
    return f"P{parts}" if parts and not milliseconds else f"P{parts}T{seconds}{fraction}S"


_RUN: Final = 1000


class _Run(NamedTuple):
    """Consecutive records; end: the position after the last one, which may be more than one behind that before it."""

    values: list[object]
    end: int
    unreadable: Mapping[int, Unreadable] = {}


class AvroReader(FormatReader):
    """Each record is a struct. Blocks before the position are skipped without decoding them.

    What cannot be read is one record: a damaged place up to the next sync marker, or the rest of a block behind a
    record that cannot be decoded. The latter's position is that behind all records of the block.
    """

    unit: ClassVar[str] = "row"
    module: ClassVar[str | None] = "fastavro"
    compressible: ClassVar[bool] = False

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        from ringfence.connectors.sdk.avro.container import ERRORS, BlockReader

        self._options = options_of(settings)
        try:
            self._blocks = BlockReader(file)
            self._schema, self._value_of = to_connect(self._blocks.declared, self._options)
        except FormatError:
            raise
        except ERRORS as error:
            raise FormatError(f"it is not an Avro file: {error}") from error
        self._errors = ERRORS
        self._row = position
        self._broken: FormatError | None = None
        """Why the file cannot be read on, once the records before are read."""
        self._runs = self._read_blocks(position)
        self._run: _Run | None = None
        self._used = 0
        """The number of records of the run that were returned."""
        self._advance()

    def read(self, limit: int) -> Rows:
        if self._broken is not None:
            raise self._broken
        if self._run is None:
            return Rows([], [], self._schema)
        start, run = self._used, self._run
        values = run.values[start : start + limit]
        self._used, first = start + len(values), self._row + 1
        whole = self._used == len(run.values)
        self._row = run.end if whole else self._row + len(values)
        positions = [*range(first, first + len(values) - 1), self._row]
        unreadable = {
            number - start: run.unreadable[number] for number in run.unreadable if start <= number < self._used
        }
        if whole:
            self._advance()
        return Rows(values, positions, self._schema, unreadable)

    @property
    def at_end(self) -> bool:
        return self._run is None and self._broken is None

    def _advance(self) -> None:
        self._used = 0
        try:
            self._run = next(self._runs, None)
        except self._errors as error:
            self._run = None
            self._broken = FormatError(f"it cannot be read as Avro after record {self._row}: {error}")
            self._broken.__cause__ = error

    def _read_blocks(self, skip: int) -> Iterator[_Run]:
        """Yield the records after a position."""
        from ringfence.connectors.sdk.avro.container import Damage

        at = 0
        for block in self._blocks:
            if isinstance(block, Damage):
                at += 1
                if at > skip:
                    reason = f"bytes {block.start} to {block.end} are damaged ({block.reason})"
                    problem = DataException(reason, row=str(at), remedy="Restore them from the original")
                    yield _alone(Unreadable(problem, ""), at)
                continue
            if at + block.length > skip:
                yield from self._read_block(block, at, skip)
            at += block.length

    def _read_block(self, block: Any, at: int, skip: int) -> Iterator[_Run]:
        number, convert = at, self._value_of
        problem: Exception | None = None
        values: list[object] = []
        unreadable: dict[int, Unreadable] = {}
        try:
            for record in block.records:
                number += 1
                if number <= skip:
                    continue
                try:
                    values.append(convert(record))
                except DataException as error:
                    unreadable[len(values)] = self._refuse(record, number, error)
                    values.append(None)
                if len(values) == _RUN:
                    yield _Run(values, number, unreadable)
                    values, unreadable = [], {}
        except self._errors as error:
            problem = error
        if values:
            yield _Run(values, number, unreadable)
        if isinstance(problem, UnicodeDecodeError):
            yield from self._read_leniently(block, at, max(number, skip))
        elif problem is not None:
            yield self._refuse_rest(number, at + block.length, problem)

    def _read_leniently(self, block: Any, at: int, skip: int) -> Iterator[_Run]:
        """Yield the records of a block with texts that are not UTF-8, after a position."""
        number = at
        try:
            for record in block.lenient():
                number += 1
                if number > skip:
                    yield self._convert_repaired(record, number)
        except self._errors as error:
            yield self._refuse_rest(number, at + block.length, error)

    def _convert_repaired(self, record: Any, number: int) -> _Run:
        try:
            return _Run([self._value_of(repair_texts(record, self._options.bad_text))], number)
        except DataException as error:
            return _alone(self._refuse(record, number, error), number)

    @staticmethod
    def _refuse(record: Any, number: int, error: DataException) -> Unreadable:
        return Unreadable(error.at(row=str(number)), row_text([*record], [*record.values()]))

    @staticmethod
    def _refuse_rest(number: int, end: int, error: Exception) -> _Run:
        reason = f"the records {number + 1} to {end} cannot be decoded ({error})"
        problem = DataException(reason, row=str(number + 1), remedy="Write the file again")
        return _alone(Unreadable(problem, ""), end)


def _alone(unreadable: Unreadable, end: int) -> _Run:
    return _Run([None], end, {0: unreadable})
