"""Transforms that extract a field or wrap the whole in one: ExtractField, HoistField, ValueToKey."""

from collections.abc import Mapping

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
from ringfence.connectors.columns import Column
from ringfence.connectors.transforms.base import JAVA, KeyOrValue, halves, keep_for, replace_null
from ringfence.connectors.transforms.paths import FieldPath, field_syntax
from ringfence.connectors.transforms.rebuilding import Rebuilt


class ExtractField(KeyOrValue):
    """Replaces the whole by one of its fields."""

    _CONFIG_DEF = replace_null(
        field_syntax(
            ConfigDef().define(
                "field",
                ConfigType.STRING,
                importance=Importance.MEDIUM,
                documentation="The field to extract.",
            )
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._path = FieldPath("field", settings.string("field"), settings.string("field.syntax.version"))
        self._defaults = settings.boolean("replace.null.with.default")

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if schema is None:
            part = None if value is None else self._path.in_mapping(self.mapping(record, value))
            return self.replace_part(record, None, part)
        field = self._path.field(schema)
        if field is None:
            raise ConnectorError(
                f"Unknown field: {self._path.text}. {self.name} found {', '.join(schema.names) or 'no fields'} in a "
                f"record for topic {record.topic}."
            )
        struct = None if value is None else self.struct(record, value)
        return self.replace_part(record, field.schema, self._path.in_struct(struct, self._defaults))


class HoistField(KeyOrValue):
    """Wraps the whole in a struct, or without a schema in a mapping, as its only field."""

    _CONFIG_DEF = ConfigDef().define(
        "field",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="The name of the field for the whole.",
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._field = name = self._CONFIG_DEF.parse(config).string("field")
        self._schema = Rebuilt(lambda schema: Schema(SchemaType.STRUCT, fields=[(name, schema)]))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if schema is None:
            return self.replace_part(record, None, {self._field: value})
        new_schema = self._schema(schema)
        return self.replace_part(record, new_schema, Struct(new_schema, {self._field: value}))

    @property
    def by_column(self) -> bool:
        return not self.on_key

    def apply_column(self, column: Column) -> bool:
        schema, values = column.schema, column.whole()
        if schema is None:
            column.values = [{self._field: value} for value in values]
            return True
        new_schema = self._schema(schema)
        _, cls, limit, _ = new_schema.quick[self._field]
        if column.structs:
            cls = Struct
        if set(map(type, values)) != {cls} or (limit and not -limit <= min(values) <= max(values) < limit):
            return False
        column.schema, column.values = new_schema, [[value] for value in values]
        return True


class ValueToKey(KeyOrValue):
    """Builds the key from fields of the value."""

    name = "ValueToKey"
    aliases = (JAVA + name,)
    on_key = False
    _CONFIG_DEF = replace_null(
        ConfigDef().define(
            "fields",
            ConfigType.LIST,
            validator=NonEmpty(),
            importance=Importance.HIGH,
            documentation="The value's fields for the key.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._fields = settings.strings("fields")
        self._defaults = settings.boolean("replace.null.with.default")
        self._schema = Rebuilt(self._of)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        changed = record.copy()
        if schema is None:
            mapping = self.mapping(record, value)
            changed.key_schema, changed.key = None, {name: mapping.get(name) for name in self._fields}
            return changed
        struct = self.struct(record, value)
        changed.key_schema = new_schema = self._schema(struct.schema)
        changed.key = Struct.of(new_schema, [keep_for(struct, name, self._defaults) for name in self._fields])
        return changed

    def _of(self, schema: Schema) -> Schema:
        fields = []
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise ConnectorError(f"Field does not exist: {name}. ValueToKey found {', '.join(schema.names)}.")
            fields.append((name, field.schema))
        return Schema(SchemaType.STRUCT, fields=fields)


ExtractFieldKey, ExtractFieldValue = halves(ExtractField)
HoistFieldKey, HoistFieldValue = halves(HoistField)
