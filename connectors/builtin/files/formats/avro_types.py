"""Avro's schemas as Kafka Connect's, and the values that fastavro reads as its values."""

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
    """The schema of a file's records, and how a record is made of what fastavro read. Raises `FormatError`."""
    if not isinstance(avro, dict) or avro.get("type") != "record":
        raise FormatError("its schema is not a record")
    schema, value_of = _Schemas().read(avro)
    assert value_of is not None  # of a record
    return schema, value_of


class _Schemas:
    """Of one file. Named types are known once they were read."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Schema, ValueOf | None]] = {}

    def read(self, avro: Any) -> tuple[Schema, ValueOf | None]:
        """The schema, and how to make its values; None where they are fastavro's already."""
        if isinstance(avro, list):
            return self._union(avro)
        if isinstance(avro, str):
            if avro in _PLAIN:
                return _PLAIN[avro], None
            if avro in self._named:
                return self._named[avro]
            raise FormatError(f"its schema holds {avro} in itself, which Kafka Connect's schemas cannot")
        kind = avro["type"]
        if isinstance(kind, dict | list):
            return self.read(kind)
        found = self._read(kind, avro)
        if "name" in avro:
            self._named[avro["name"]] = found
        return found

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
        """Null and one other type: an optional value. Kafka Connect's schemas have no other unions."""
        others = [each for each in avro if each != "null"]
        if not others or len(others) > 1:
            raise FormatError("its schema has a union of several types, which Kafka Connect's schemas have not")
        schema, value_of = self.read(others[0])
        if len(others) == len(avro):
            return schema, value_of
        optional = schema.but(optional=True)
        if value_of is None:
            return optional, None
        if schema.type is SchemaType.STRUCT:  # a struct says itself which schema it has
            return optional, lambda value: None if value is None else Struct.of(optional, [*value_of(value).values])
        return optional, lambda value: None if value is None else value_of(value)


def _list_of(value_of: ValueOf) -> ValueOf:
    return lambda values: [value_of(each) for each in values]


def _map_of(value_of: ValueOf) -> ValueOf:
    return lambda values: {key: value_of(each) for key, each in values.items()}


def _micros_of_day(moment: time) -> int:
    return ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.microsecond
