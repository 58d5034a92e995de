"""Converts Avro's schemas to Kafka Connect's, and fastavro's values to Kafka Connect's."""

from collections.abc import Callable, Mapping
from datetime import time
from typing import Any, Final

from ringfence.connectors.api import Schema, SchemaType, Struct
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.files.formats.base import FormatError
from ringfence.connectors.values.moments import micros

ValueOf = Callable[[Any], Any]

_PLAIN: Final = {
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
_LOGICAL: Final = {
    "date": connect.DATE,
    "time-millis": connect.TIME,
    "timestamp-millis": connect.TIMESTAMP,
    "uuid": connect.STRING,
}
_MICROS: Final = {
    "time-micros": Schema(SchemaType.INT64, name="io.debezium.time.MicroTime", version=1),
    "timestamp-micros": Schema(SchemaType.INT64, name="io.debezium.time.MicroTimestamp", version=1),
}


def to_connect(avro: Any) -> tuple[Schema, Callable[[Any], Struct]]:
    """Return the schema of a file's records, and a function that converts a record from fastavro. Raises
    `FormatError`.
    """
    if not isinstance(avro, dict) or avro.get("type") != "record":
        raise FormatError("its schema is not a record")
    schema, value_of = _Schemas().read(avro)
    assert value_of is not None  # always set for a record
    return schema, value_of


class _Schemas:
    """The schemas of one file. A named type is known after its definition."""

    def __init__(self) -> None:
        self._types: dict[str, tuple[Schema, ValueOf | None]] = {}

    def read(self, avro: Any) -> tuple[Schema, ValueOf | None]:
        """Return the schema, and the function that converts its values; None if fastavro's values fit as they are."""
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
        logical = avro.get("logicalType")
        if logical == "decimal":
            return connect.decimal(avro.get("scale", 0)), None
        if logical in _MICROS:
            return _MICROS[logical], _micros_of_day if logical == "time-micros" else micros
        if logical in _LOGICAL:
            return _LOGICAL[logical], str if logical == "uuid" else None
        if kind == "record":
            return self._record(avro)
        if kind == "array":
            schema, value_of = self.read(avro["items"])
            return connect.array(schema), value_of and _list_of(value_of)
        if kind == "map":
            schema, value_of = self.read(avro["values"])
            return connect.mapping(connect.STRING, schema), value_of and _map_of(value_of)
        return self.read(kind)

    def _record(self, avro: Mapping[str, Any]) -> tuple[Schema, ValueOf]:
        fields = [(field["name"], *self.read(field["type"])) for field in avro["fields"]]
        schema = connect.struct({name: schema for name, schema, _ in fields}, avro["name"])
        plan = [(name, value_of) for name, _, value_of in fields]

        def make(record: Mapping[str, Any]) -> Struct:
            return Struct.of(
                schema, [record[name] if value_of is None else value_of(record[name]) for name, value_of in plan]
            )

        return schema, make

    def _union(self, avro: list[Any]) -> tuple[Schema, ValueOf | None]:
        """Convert a union of null and one other type to an optional schema. Kafka Connect has no other unions."""
        others = [each for each in avro if each != "null"]
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


def _micros_of_day(moment: time) -> int:
    return ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.microsecond
