"""Flatten: moves the fields of nested structs and mappings to the outermost one."""

from collections.abc import Mapping

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    Importance,
    Schema,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.structs import describe_kind
from ringfence.connectors.transforms.base import KeyOrValue, halves
from ringfence.connectors.transforms.rebuilding import Rebuilt, basics


class Flatten(KeyOrValue):
    """Names each field by its path, with a delimiter between the steps. Lists stay unchanged."""

    _CONFIG_DEF = ConfigDef().define(
        "delimiter",
        ConfigType.STRING,
        default=".",
        importance=Importance.MEDIUM,
        documentation="The delimiter between the names of a field's path.",
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._delimiter = self._CONFIG_DEF.parse(config).string("delimiter")
        self._schema = Rebuilt(self._rebuild)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, object] = {}
            self._flatten(self.mapping(record, value), "", flat)
            return self.replace_part(record, None, flat)
        struct = self.struct(record, value)
        new_schema = self._schema(struct.schema)
        values: list[object] = []
        self._gather(struct.schema, struct, values)
        return self.replace_part(record, new_schema, Struct.of(new_schema, values))

    def _flatten(self, mapping: Mapping[str, object], prefix: str, flat: dict[str, object]) -> None:
        for name, value in mapping.items():
            if isinstance(value, Mapping):
                self._flatten(value, f"{prefix}{name}{self._delimiter}", flat)
            elif value is None or isinstance(value, str | int | float | bytes | bytearray | memoryview | list | tuple):
                flat[f"{prefix}{name}"] = value
            else:
                raise ConnectorError(
                    f"Flatten does not support {describe_kind(value)} without a schema, as in field {prefix}{name}."
                )

    def _gather(self, schema: Schema, struct: Struct | None, values: list[object]) -> None:
        """Append the values of all fields, in order. In a null struct, all are null."""
        field_values = struct.values_or_defaults() if struct is not None else [None] * len(schema.fields)
        for field, value in zip(schema.fields, field_values, strict=True):
            if field.schema.type is not SchemaType.STRUCT:
                values.append(value)
                continue
            inner = (
                None if struct is None else struct.raw_value(field.name)
            )  # its default is in the new fields' schemas
            self._gather(field.schema, inner if isinstance(inner, Struct) else None, values)

    def _rebuild(self, schema: Schema) -> Schema:
        fields: dict[str, Schema] = {}
        default = schema.default if isinstance(schema.default, Struct) else None
        self._fields(schema, "", fields, schema.optional, default)
        return basics(schema, fields)

    def _fields(
        self, schema: Schema, prefix: str, fields: dict[str, Schema], optional: bool, default: Struct | None
    ) -> None:
        """A field is optional if a struct on its path is; its default may come from such a struct, too."""
        for name, _, inner in schema.fields:
            may_be_null = optional or inner.optional
            own = inner.default
            if own is None and default is not None:
                own = default[name]
            if inner.type is SchemaType.STRUCT:
                deeper = f"{prefix}{name}{self._delimiter}"
                self._fields(inner, deeper, fields, may_be_null, own if isinstance(own, Struct) else None)
            elif inner.type is SchemaType.MAP:
                raise ConnectorError(f"Flatten does not support maps with a schema: {prefix}{name} is one.")
            elif f"{prefix}{name}" in fields:
                raise ConnectorError(f"Flatten creates two fields with the name {prefix}{name}: set another delimiter.")
            else:
                fields[f"{prefix}{name}"] = inner.but(optional=may_be_null, default=own)


FlattenKey, FlattenValue = halves(Flatten)
