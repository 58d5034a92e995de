"""Protobuf, with a message for each struct."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

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
from ringfence.connectors.api.schemas import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME, fit
from ringfence.connectors.converters.json_converter import to_signed_bytes, to_unscaled
from ringfence.connectors.converters.registry.registry_converter import RegistryConverter, Write, is_same_struct
from ringfence.connectors.converters.registry.settings import load
from ringfence.connectors.sdk.values.moments import millis
from ringfence.connectors.sdk.values.texts import moment_text

Message = Any
Fill = Callable[[Message, Any], None]
"""Puts a value into a message."""
SCALARS: Final = {
    SchemaType.INT8: "int32",
    SchemaType.INT16: "int32",
    SchemaType.INT32: "int32",
    SchemaType.INT64: "int64",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "bool",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
LOGICAL: Final = {
    DECIMAL_NAME: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
    DATE_NAME: ("google.type.Date", "google/type/date.proto"),
    TIME_NAME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP_NAME: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
_MODULES: Final = (
    "confluent_kafka.schema_registry.confluent.type.decimal_pb2",
    "google.type.date_pb2",
    "google.type.timeofday_pb2",
    "google.protobuf.timestamp_pb2",
)
_KEYS: Final = frozenset(SCALARS) - {SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.BYTES}
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Descriptor = Any


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


class ProtoFile:
    """One file with one top-level message; those of inner structs are nested in it."""

    def __init__(self, schema: Schema) -> None:
        """Raises `ConnectorError` for what Protobuf cannot represent."""
        if schema.type is not SchemaType.STRUCT:
            raise ConnectorError(
                f"ProtobufConverter writes structs, but the schema is {schema}: use another converter, such as "
                "StringConverter for keys."
            )
        self._proto = load("google.protobuf.descriptor_pb2")
        self._count = 0
        self._types: dict[str, Schema] = {}
        self._fields: dict[str, frozenset[str]] = {}
        package, _, name = (schema.name or self._make_name()).rpartition(".")
        self._file = self._proto.FileDescriptorProto(name=f"{name}.proto", syntax="proto3")
        if package:
            self._file.package = package
        self._message(self._file.message_type.add(), name, f".{package}.{name}" if package else f".{name}", schema)
        self.full_name = f"{package}.{name}" if package else name

    def message_class(self) -> Any:
        """The message class, from a pool of its own, since two schemas may have the same name."""
        pool = load("google.protobuf.descriptor_pool").DescriptorPool()
        for module in _MODULES:
            source = load(module).DESCRIPTOR
            for each in (*source.dependencies, source):
                proto = self._proto.FileDescriptorProto()
                each.CopyToProto(proto)
                pool.Add(proto)
        pool.Add(self._file)
        return load("google.protobuf.message_factory").GetMessageClass(pool.FindMessageTypeByName(self.full_name))

    def text(self) -> str:
        """The source text of the file."""
        lines = ['syntax = "proto3";']
        if self._file.package:
            lines.append(f"package {self._file.package};")
        lines += [f'import "{name}";' for name in self._file.dependency]
        return "\n".join([*lines, "", *self._lines(self._file.message_type[0], "")]) + "\n"

    def _make_name(self) -> str:
        self._count += 1
        return f"ConnectDefault{self._count}"

    def _message(self, message: Descriptor, name: str, path: str, schema: Schema) -> None:
        """Fill the descriptor of a message. path: its full name, with a leading dot."""
        _check(name)
        message.name = name
        self._fields[path] = frozenset(schema.names)
        for number, (field_name, _, inner) in enumerate(schema.fields, start=1):
            _check(field_name)
            field = message.field.add(name=field_name, number=number)
            if inner.type is SchemaType.ARRAY and inner.values is not None:
                field.label = field.LABEL_REPEATED
                self._type(message, path, field, inner.values)
            elif inner.type is SchemaType.MAP:
                field.label = field.LABEL_REPEATED
                self._map(message, path, field, inner)
            else:
                field.label = field.LABEL_OPTIONAL
                self._type(message, path, field, inner)
        for field, (_, _, inner) in zip(message.field, schema.fields, strict=True):
            if field.label == field.LABEL_OPTIONAL and field.type != field.TYPE_MESSAGE and _nullable(inner):
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _type(self, message: Descriptor, path: str, field: Descriptor, schema: Schema) -> None:
        logical = LOGICAL.get(schema.name or "")
        if logical is not None:
            field.type, field.type_name = field.TYPE_MESSAGE, f".{logical[0]}"
            if logical[1] not in self._file.dependency:
                self._file.dependency.append(logical[1])
        elif schema.type in SCALARS:
            field.type = getattr(field, f"TYPE_{SCALARS[schema.type].upper()}")
        elif schema.type is SchemaType.STRUCT:
            name = (schema.name or self._make_name()).rpartition(".")[2]
            if name in self._fields[path]:
                name += "Message"  # fields and nested messages share a namespace
            field.type, field.type_name = field.TYPE_MESSAGE, f"{path}.{name}"
            earlier = self._types.get(f"{path}.{name}")
            if earlier is None:
                self._types[f"{path}.{name}"] = schema
                self._message(message.nested_type.add(), name, f"{path}.{name}", schema)
            elif earlier.fields != schema.fields:
                raise ConnectorError(f"Two structs in {path[1:]} have the name {name}: give each its own name.")
        else:
            raise ConnectorError(f"Protobuf has no lists of lists and no maps in lists: field {field.name} is one.")

    def _map(self, message: Descriptor, path: str, field: Descriptor, schema: Schema) -> None:
        if schema.keys is None or schema.values is None or schema.keys.type not in _KEYS or schema.keys.name in LOGICAL:
            raise ConnectorError(
                f"The keys of Protobuf's maps must be strings, integers or booleans: those of field {field.name} "
                "are not."
            )
        name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, inner) in enumerate((("key", schema.keys), ("value", schema.values)), start=1):
            each = entry.field.add(name=part, number=number, label=field.LABEL_OPTIONAL)
            self._type(message, path, each, inner)
        field.type, field.type_name = field.TYPE_MESSAGE, f"{path}.{name}"

    def _lines(self, message: Descriptor, indent: str) -> Iterator[str]:
        entries = {each.name: each for each in message.nested_type if each.options.map_entry}
        yield f"{indent}message {message.name} {{"
        for field in message.field:
            entry = entries.get(field.type_name.rpartition(".")[2]) if field.type == field.TYPE_MESSAGE else None
            if entry is not None:
                type_text = f"map<{_render(entry.field[0])}, {_render(entry.field[1])}>"
            elif field.label == field.LABEL_REPEATED:
                type_text = f"repeated {_render(field)}"
            else:
                type_text = f"optional {_render(field)}" if field.proto3_optional else _render(field)
            yield f"{indent}  {type_text} {field.name} = {field.number};"
        for each in message.nested_type:
            if each.name not in entries:
                yield from self._lines(each, indent + "  ")
        yield indent + "}"


def _nullable(schema: Schema) -> bool:
    return schema.optional or schema.default is not None


def _render(field: Descriptor) -> str:
    if field.type == field.TYPE_MESSAGE:
        return str(field.type_name)
    return next(name for name in SCALARS.values() if getattr(field, f"TYPE_{name.upper()}") == field.type)


def _check(name: str) -> None:
    if _IDENTIFIER.fullmatch(name) is None:
        raise ConnectorError(
            f"{name} is not a name in Protobuf: use letters, digits and _. ReplaceField renames fields."
        )
