"""Transforms of what fields, or the whole key or value, contain: Cast (other types), InsertField (the record's
metadata, or a fixed string), MaskField (hides the content, keeps the type), SetSchemaMetadata (the schema's name or
version).
"""

import base64
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    NonEmpty,
    Schema,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.schemas import INT32, STRING, TIMESTAMP, describe_kind, single
from ringfence.connectors.columns import Column
from ringfence.connectors.sdk.values.moments import encode, is_moment, to_datetime
from ringfence.connectors.sdk.values.texts import moment_text, number_text
from ringfence.connectors.transforms.base import (
    KeyOrValue,
    Rebuilt,
    basics,
    define_items,
    fill_defaults,
    halves,
    replace_null,
    values_of,
)

_TARGETS: Final = (
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
    SchemaType.BOOLEAN,
    SchemaType.STRING,
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_REAL: Final = re.compile(r"([+-]?)(?:(NaN)|(Infinity)|((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)")


def parse_spec(name: str, items: list[str]) -> tuple[dict[str, SchemaType], SchemaType | None]:
    """Return types by field, and the type of the whole. Raises `ConfigException`."""
    fields: dict[str, SchemaType] = {}
    whole: SchemaType | None = None
    if not items:
        raise ConfigException.invalid(name, "", "Name at least one field, as field:type, or one type for the whole")
    for item in items:
        parts = [part.strip() for part in item.split(":")]
        if len(parts) > 2:
            raise ConfigException.invalid(name, ",".join(items), f"{item} does not have the form field:type")
        type_name = parts[-1].lower()
        target = next((each for each in _TARGETS if each.value == type_name), None)
        if target is None:
            types = ", ".join(each.value for each in _TARGETS)
            raise ConfigException.invalid(name, ",".join(items), f"{parts[-1]} is not a type to cast to: {types}")
        if len(parts) == 2:
            fields[parts[0]] = target
        else:
            whole = target
    if whole is not None and (fields or len(items) > 1):
        raise ConfigException.invalid(name, ",".join(items), "A type for the whole must be the only item")
    return fields, whole


def _is_spec(name: str, value: object) -> None:
    if isinstance(value, list):
        parse_spec(name, value)


class Cast(KeyOrValue):
    """Casts fields (`spec=a:int32,b:string`), or the whole (`spec=int64`). Null stays null."""

    _CONFIG_DEF = replace_null(
        ConfigDef().define(
            "spec",
            ConfigType.LIST,
            validator=_is_spec,
            importance=Importance.HIGH,
            documentation="Fields and their new types, as field:type, or one type for the whole: int8, int16, int32, "
            "int64, float32, float64, boolean, string. Bytes can only become strings.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._fields, self._whole = parse_spec("spec", settings.strings("spec"))
        self._defaults = settings.boolean("replace.null.with.default")
        self._schema = Rebuilt(self._rebuild)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if value is None:
            return record
        if self._whole is not None:
            new_schema = None if schema is None else self._schema(schema)
            return self.replace_part(record, new_schema, cast(schema, value, self._whole))
        if schema is None:
            mapping = self.mapping(record, value)
            casts = {name: cast(None, mapping.get(name), target) for name, target in self._fields.items()}
            return self.replace_part(record, None, {**mapping, **casts})
        struct = self.struct(record, value)
        new_schema = self._schema(struct.schema)
        values = values_of(struct, self._defaults)
        for name, target in self._fields.items():
            field = schema.field(name)
            if field is not None:
                values[field.place] = cast(field.schema, values[field.place], target)
        return self.replace_part(record, new_schema, Struct.of(new_schema, values))

    def _rebuild(self, schema: Schema) -> Schema:
        if self._whole is not None:
            default = cast(schema, schema.default, self._whole)
            return basics(schema, type=self._whole, optional=schema.optional, default=default)
        fields = {}
        for name, _, field in schema.fields:
            target = self._fields.get(name)
            if target is not None:
                field = Schema(target, optional=field.optional, default=cast(field, field.default, target))
            fields[name] = field
        default = schema.default
        built = basics(schema, fields, optional=schema.optional)
        if isinstance(default, Struct):
            values = {name: default[name] for name in default.schema.names}
            for name, target in self._fields.items():
                if (inner := schema.field(name)) is not None:
                    values[name] = cast(inner.schema, values[name], target)
            built = built.but(default=Struct(built.but(optional=True), values))
        return built


def cast(schema: Schema | None, value: object, target: SchemaType) -> object:
    """Return the value converted to the target type, as Java's casts do. Raises `ConnectorError`."""
    if value is None:
        return None
    kind = None if schema is None else schema.type
    if (kind is not None and not kind.primitive) or (
        kind is None and not isinstance(value, int | float | str | bytes | bytearray | memoryview)
    ):
        text = f"Cast needs a number, a string, a boolean or bytes. This is {describe_kind(value)}."
        if isinstance(value, Struct | Mapping):
            text = f"{text} Name the fields, as in spec=id:int64."
        elif kind is None and not isinstance(value, list | tuple):
            text = f"{text} A date, time or decimal needs its schema."
        raise ConnectorError(text)
    if target is SchemaType.STRING:
        return _to_string(schema, value)
    if is_moment(value):
        value = encode(schema.name if schema is not None else None, value)
    if target is SchemaType.BOOLEAN:
        return _to_boolean(value)
    if target in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        number = _to_real(value)
        return single(number) if target is SchemaType.FLOAT32 else number
    return _to_whole(value, target)


def _to_string(schema: Schema | None, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if is_moment(value):
        return moment_text(value)
    if isinstance(value, float):
        return number_text(value, 32 if schema is not None and schema.type is SchemaType.FLOAT32 else 64)
    return str(value)


def _to_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, int | float | Decimal):
        return _integral(value, 64) != 0
    raise _impossible(value)


def _to_real(value: object) -> float:
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    if isinstance(value, str):
        match = _REAL.fullmatch(value.strip())
        if match is None:
            raise ConnectorError("Cast was given a string that is not a number.")
        number = float("nan" if match[2] else "inf" if match[3] else match[4])
        return -number if match[1] == "-" else number
    raise _impossible(value)


_BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}


def _to_whole(value: object, target: SchemaType) -> int:
    bits = _BITS[target]
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) is None or len(value) > 24 or _wrap(int(value), bits) != int(value):
            raise ConnectorError(f"Cast was given a string that is not a number of type {target}.")
        return int(value)
    if isinstance(value, int | float | Decimal):
        return _integral(value, bits)
    raise _impossible(value)


def _integral(value: float | Decimal, bits: int) -> int:
    """Narrow as Java does: a floating point number is limited to the bounds of 32 or 64 bits, then higher bits are cut
    off.
    """
    if isinstance(value, float):
        if value != value:
            return 0
        limit = 1 << (63 if bits == 64 else 31)
        value = limit - 1 if value >= limit else -limit if value < -limit else int(value)
    try:
        return _wrap(int(value), bits)
    except (ValueError, OverflowError):  # a decimal that is NaN or infinite, which Java does not have
        raise ConnectorError(f"Cast was given {value}, which is not a number of any whole type.") from None


def _wrap(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def _impossible(value: object) -> ConnectorError:
    return ConnectorError(f"Cast cannot convert {describe_kind(value)} to this type: bytes can only become strings.")


CastKey, CastValue = halves(Cast)


_MARKS = "A trailing ! makes it required in the schema; ? or nothing, optional."


def _refuse_offset(name: str, value: object) -> None:
    raise ConfigException.invalid(
        name, value, "a source record has no Kafka offset before it is written; remove the setting"
    )


def _define_insertions() -> ConfigDef:
    keys = ConfigDef()
    for name, documentation in {
        "topic.field": f"The field for the record's topic. {_MARKS}",
        "partition.field": f"The field for the Kafka partition, if the connector chose one. {_MARKS}",
        "offset.field": "The field for the Kafka offset. Not supported: only sinks know it.",
        "timestamp.field": f"The field for the record's timestamp in milliseconds, if it has one. {_MARKS}",
        "static.field": f"The field for `static.value`. {_MARKS}",
    }.items():
        validator = _refuse_offset if name == "offset.field" else NonEmpty()
        keys.define(name, ConfigType.STRING, default=None, validator=validator, documentation=documentation)
    documentation, importance = "The value of `static.field`.", Importance.MEDIUM
    keys.define("static.value", ConfigType.STRING, default=None, documentation=documentation, importance=importance)
    return replace_null(keys)


class _Insertion(NamedTuple):
    """A field to add, and whether it is optional."""

    name: str
    optional: bool
    schema: Schema


class InsertField(KeyOrValue):
    """Adds fields to a struct, or to a mapping without a schema. A key or value of None passes unchanged."""

    _CONFIG_DEF = _define_insertions()

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)

        def field(name: str, schema: Schema) -> _Insertion | None:
            setting = settings[name]
            if setting is None:
                return None
            text = str(setting)
            return _Insertion(text.removesuffix("?").removesuffix("!"), not text.endswith("!"), schema)

        self._topic = field("topic.field", STRING)
        self._partition = field("partition.field", INT32)
        self._timestamp = field("timestamp.field", TIMESTAMP)
        self._static = field("static.field", STRING)
        self._value = settings["static.value"]
        fields = (self._topic, self._partition, self._timestamp, self._static)
        if not any(fields):
            raise ConfigException("No field insertion configured")
        if self._static is not None and self._value is None:
            raise ConfigException(f"No value specified for static field: {self._static.name}")
        self._fields = [each for each in fields if each is not None]
        self._defaults = settings.boolean("replace.null.with.default")
        self._schema = Rebuilt(self._rebuild)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if value is None:
            return record
        if schema is None:
            return self.replace_part(record, None, self._add_fields(self.mapping(record, value), record.topic, record))
        struct = self.struct(record, value)
        new_schema = self._schema(struct.schema)
        values = values_of(struct, self._defaults)
        if self._topic is not None:  # in the order of `self._fields`
            values.append(record.topic)
        if self._partition is not None:
            values.append(record.partition)
        if self._timestamp is not None:
            values.append(None if record.timestamp is None else to_datetime(record.timestamp))
        if self._static is not None:
            values.append(self._value)
        return self.replace_part(record, new_schema, Struct.of(new_schema, values))

    def _add_fields(self, mapping: Mapping[str, object], topic: str, record: SourceRecord) -> dict[str, object]:
        changed = {**mapping}
        if self._topic is not None:
            changed[self._topic.name] = topic
        if self._partition is not None and record.partition is not None:
            changed[self._partition.name] = record.partition
        if self._timestamp is not None and record.timestamp is not None:
            changed[self._timestamp.name] = record.timestamp
        if self._static is not None:
            changed[self._static.name] = self._value
        return changed

    @property
    def by_column(self) -> bool:
        return self._defaults and not self.on_key

    def apply_column(self, column: Column) -> bool:  # noqa: C901 - a loop for each field, without calls within them
        schema, topic = column.schema, column.topic
        if schema is None:
            pairs = zip(column.values, column.records, strict=True)
            column.values = [self._add_fields(self.mapping(record, value), topic, record) for value, record in pairs]
            return True
        if not column.structs:
            return False
        new_schema = self._schema(schema)
        rows = fill_defaults(schema, column.values)
        records = column.records
        if self._topic is not None:  # in the order of `self._fields`
            for row in rows:
                row.append(topic)
        if self._partition is not None:
            for row, record in zip(rows, records, strict=True):
                row.append(record.partition)
        if self._timestamp is not None:
            for row, record in zip(rows, records, strict=True):
                row.append(None if record.timestamp is None else to_datetime(record.timestamp))
        if self._static is not None:
            value = self._value
            for row in rows:
                row.append(value)
        column.schema = new_schema
        return True

    def _rebuild(self, schema: Schema) -> Schema:
        fields = {name: inner for name, _, inner in schema.fields}
        for field in self._fields:
            if field.name in fields:
                raise ConnectorError(
                    f"InsertField cannot add field {field.name}: it already exists; choose another name."
                )
            fields[field.name] = field.schema.but(optional=field.optional)
        return basics(schema, fields)


InsertFieldKey, InsertFieldValue = halves(InsertField)


_WHOLE = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


_NOTHING: Mapping[type, object] = {bool: False, int: 0, float: 0.0, str: ""}


class MaskField(KeyOrValue):
    """Replaces values that are not null by an empty value (0, "", false, an empty list) or by `replacement`."""

    _CONFIG_DEF = replace_null(
        define_items(ConfigDef(), "fields", "The fields to hide.").define(
            "replacement",
            ConfigType.STRING,
            default=None,
            validator=NonEmpty(),
            importance=Importance.LOW,
            documentation="The value to use instead of an empty one: for strings and numbers only.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._fields = settings.strings("fields")
        self._replacement = None if settings["replacement"] is None else settings.string("replacement")
        self._defaults = settings.boolean("replace.null.with.default")

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if schema is None:
            mapping = self.mapping(record, value)
            hidden = {name: self._hide(name, None, mapping.get(name)) for name in self._fields}
            return self.replace_part(record, None, {**mapping, **hidden})
        struct = self.struct(record, value)
        values = values_of(struct, self._defaults)
        for name in self._fields:
            field = struct.schema.field(name)
            if field is not None:
                values[field.place] = self._hide(name, field.schema, values[field.place])
        return self.replace_part(record, schema, Struct.of(struct.schema, values))

    def _hide(self, name: str, schema: Schema | None, value: object) -> object:
        if value is None:
            return None
        hidden = nothing(value) if self._replacement is None else _replacement(schema, value, self._replacement)
        if hidden is None:
            how = "" if self._replacement is None else " with a replacement"
            raise ConnectorError(f"MaskField cannot hide {describe_kind(value)}{how}: leave field {name} out.")
        return hidden


def nothing(value: object) -> object:
    """Return the empty value of the same type; None if there is none."""
    if value.__class__ in _NOTHING:
        return _NOTHING[value.__class__]
    if isinstance(value, datetime):
        return datetime(1970, 1, 1, tzinfo=UTC)
    if isinstance(value, date):
        return date(1970, 1, 1)
    if isinstance(value, time):
        return time(0)
    for kind, empty in ((bool, False), (int, 0), (float, 0.0), (Decimal, Decimal(0)), (str, "")):
        if isinstance(value, kind):
            return empty
    if isinstance(value, list | tuple):
        return []
    return {} if isinstance(value, Mapping) else None


def _replacement(schema: Schema | None, value: object, replacement: str) -> object:
    """Return the replacement as a value of the same type; None if that is not possible."""
    if isinstance(value, str):
        return replacement
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = Decimal(replacement) if _NUMBER.fullmatch(replacement) else None
    except InvalidOperation:
        number = None
    if number is None:
        raise ConnectorError(f"MaskField cannot use {replacement!r} as a number: set replacement to one.")
    if isinstance(value, Decimal):
        return number
    if isinstance(value, float):
        return cast(None, float(number), SchemaType.FLOAT64 if schema is None else schema.type)
    return cast(Schema(SchemaType.BYTES), number, schema.type if schema is not None else SchemaType.INT64)


MaskFieldKey, MaskFieldValue = halves(MaskField)


class SetSchemaMetadata(KeyOrValue):
    """Sets the schema's name, its version, or both."""

    _CONFIG_DEF = replace_null(
        ConfigDef()
        .define(
            "schema.name",
            ConfigType.STRING,
            default=None,
            importance=Importance.HIGH,
            documentation="The schema's name.",
        )
        .define(
            "schema.version",
            ConfigType.INT,
            default=None,
            importance=Importance.HIGH,
            documentation="The schema's version.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        name, version = settings["schema.name"], settings["schema.version"]
        if name is None and version is None:
            raise ConfigException("Neither schema name nor version configured")
        changes = {key: each for key, each in (("name", name), ("version", version)) if each is not None}
        self._defaults = settings.boolean("replace.null.with.default")

        def rebuild(schema: Schema) -> Schema:
            return schema.but(**changes)

        self._schema = Rebuilt(rebuild)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if schema is None:
            if value is None:
                return record
            raise ConnectorError(
                f"{self.name} needs a schema, but a record for topic {record.topic} has none: use it only with "
                "connectors that set schemas."
            )
        new_schema = self._schema(schema)
        if isinstance(value, Struct):
            value = Struct.of(new_schema, values_of(value, self._defaults))
        return self.replace_part(record, new_schema, value)


SetSchemaMetadataKey, SetSchemaMetadataValue = halves(SetSchemaMetadata)
