"""MaskField: hides the content of fields, but keeps their types."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    Importance,
    NonEmpty,
    Schema,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.structs import describe_kind
from ringfence.connectors.transforms.base import KeyOrValue, halves, replace_null, values_of
from ringfence.connectors.transforms.cast import cast

_WHOLE = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


_NOTHING: Mapping[type, object] = {bool: False, int: 0, float: 0.0, str: ""}


class MaskField(KeyOrValue):
    """Replaces values that are not null by an empty value (0, "", false, an empty list) or by `replacement`."""

    _CONFIG_DEF = replace_null(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            validator=NonEmpty(),
            importance=Importance.HIGH,
            documentation="The fields to hide.",
        )
        .define(
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
