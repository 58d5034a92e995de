"""Protobuf, with a message for each struct."""

from collections.abc import Callable
from typing import Any

from ringfence.connectors.api import (
    ConnectorError,
    DistantDate,
    DistantTimestamp,
    EndOfDay,
    ParsedConfig,
    Schema,
    SchemaType,
    Struct,
)
from ringfence.connectors.api.schemas import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from ringfence.connectors.api.structs import fit
from ringfence.connectors.converters.json_encoding import to_signed_bytes, to_unscaled
from ringfence.connectors.converters.registry.confluent_client import load
from ringfence.connectors.converters.registry.proto_file import LOGICAL, ProtoFile
from ringfence.connectors.converters.registry.registry_converter import RegistryConverter, Write
from ringfence.connectors.converters.registry.struct_schemas import is_same_struct
from ringfence.connectors.sdk.values.moments import millis
from ringfence.connectors.sdk.values.texts import moment_text

Message = Any
Fill = Callable[[Message, Any], None]
"""Puts a value into a message."""


class ProtobufConverter(RegistryConverter):
    """Structs become messages, with fields numbered in their order. Nullable fields have explicit presence.

    Decimals, dates, times and timestamps are confluent.type.Decimal, google.type.Date and TimeOfDay, and
    google.protobuf.Timestamp.
    """

    aliases = ("io.confluent.connect.protobuf.ProtobufConverter",)
    kind = "PROTOBUF"

    def prepare(self, settings: ParsedConfig) -> None:
        load("google.type.date_pb2")

    def form(self, schema: Schema) -> tuple[str, Write]:
        file = ProtoFile(schema)
        new_message, fill = file.message_class(), _message(schema)

        def write(value: object) -> bytes:
            message = new_message()
            fill(message, value if value.__class__ is Struct else fit(schema, value))
            # A zero byte: the message is the file's first.
            return b"\x00" + bytes(message.SerializeToString(deterministic=True))

        return file.text(), write


def _message(schema: Schema) -> Fill:
    fields = [(field.schema, _field(field.name, field.schema)) for field in schema.fields]
    names = schema.names

    def fill(message: Message, struct: Struct) -> None:
        if not is_same_struct(struct.schema, schema):
            raise ConnectorError("Mismatching schema: the struct's schema is not the record's.")
        for name, (inner, put), value in zip(names, fields, struct.values_or_defaults(), strict=True):
            if value is not None:
                put(message, value)
            elif not inner.optional:
                raise ConnectorError(f"Field {name} is null, but {inner} is neither optional nor has a default.")

    return fill


def _field(name: str, schema: Schema) -> Fill:
    """Return a function that puts a value into the field with this name."""
    if schema.type is SchemaType.ARRAY and schema.values is not None:
        return _fill_repeated(name, schema.values)
    if schema.type is SchemaType.MAP and schema.values is not None:
        return _map(name, schema.values)
    inner = _submessage(schema)
    if inner is None:
        return lambda message, value: setattr(message, name, value)

    def put(message: Message, value: Any) -> None:
        part = getattr(message, name)
        part.SetInParent()
        inner(part, value)

    return put


def _fill_repeated(name: str, schema: Schema) -> Fill:
    inner = _submessage(schema)

    def put(message: Message, values: list[Any]) -> None:
        field = getattr(message, name)
        for value in values:
            if value is None:
                raise ConnectorError(f"Protobuf's lists cannot contain nulls: field {name} has one.")
            if inner is None:
                field.append(value)
            else:
                inner(field.add(), value)

    return put


def _map(name: str, schema: Schema) -> Fill:
    inner = _submessage(schema)

    def put(message: Message, values: dict[Any, Any]) -> None:
        field = getattr(message, name)
        for key, value in values.items():
            if key is None or value is None:
                raise ConnectorError(f"Protobuf's maps cannot contain nulls: field {name} has one.")
            if inner is None:
                field[key] = value
            else:
                inner(field[key], value)

    return put


def _submessage(schema: Schema) -> Fill | None:
    """Return what fills a message of this schema; None if its values are not messages."""
    if schema.name in LOGICAL:
        if schema.name == DECIMAL_NAME:
            return _decimal(int(schema.parameters.get("scale", "0")))
        return {DATE_NAME: _date, TIME_NAME: _time, TIMESTAMP_NAME: _timestamp}[schema.name]
    return _message(schema) if schema.type is SchemaType.STRUCT else None


def _decimal(scale: int) -> Fill:
    def fill(message: Message, value: Any) -> None:
        message.value, message.scale = to_signed_bytes(to_unscaled(value, scale)), scale

    return fill


def _date(message: Message, value: Any) -> None:
    _require_near(value)
    message.year, message.month, message.day = value.year, value.month, value.day


def _time(message: Message, value: Any) -> None:
    if isinstance(value, EndOfDay):
        message.hours = 24
        return
    message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
    message.nanos = value.microsecond // 1000 * 1_000_000


def _require_near(value: object) -> None:
    """google.type.Date and google.protobuf.Timestamp end with the years 1 and 9999."""
    if isinstance(value, DistantDate | DistantTimestamp):
        raise ConnectorError(f"Protobuf's years are 1 to 9999, and {moment_text(value)} is not in one of them.")


def _timestamp(message: Message, value: Any) -> None:
    _require_near(value)
    message.seconds, rest = divmod(millis(value), 1000)
    message.nanos = rest * 1_000_000
