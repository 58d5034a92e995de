"""Cast: converts fields, or the whole key or value, to other types."""

import base64
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    Schema,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.structs import describe_kind, single
from ringfence.connectors.sdk.values.moments import encode, is_moment
from ringfence.connectors.sdk.values.texts import moment_text, number_text
from ringfence.connectors.transforms.base import KeyOrValue, halves, replace_null, values_of
from ringfence.connectors.transforms.rebuilding import Rebuilt, basics

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
