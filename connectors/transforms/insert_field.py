"""InsertField: adds a record's metadata, or a fixed string, to its key or value."""

from collections.abc import Mapping
from typing import NamedTuple

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    NonEmpty,
    Schema,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.schemas import INT32, STRING, TIMESTAMP
from ringfence.connectors.columns import Column
from ringfence.connectors.sdk.values.moments import to_datetime
from ringfence.connectors.transforms.base import KeyOrValue, fill_defaults, halves, replace_null, values_of
from ringfence.connectors.transforms.rebuilding import Rebuilt, basics

_MARKS = "A trailing ! makes it required in the schema; ? or nothing, optional."


def _refuse_offset(name: str, value: object) -> None:
    raise ConfigException.invalid(
        name, value, "a source record has no Kafka offset before it is written; remove the setting"
    )


_CONFIG_DEF = replace_null(
    ConfigDef()
    .define(
        "topic.field",
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        documentation=f"The field for the record's topic. {_MARKS}",
    )
    .define(
        "partition.field",
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        documentation=f"The field for the Kafka partition, if the connector chose one. {_MARKS}",
    )
    .define(
        "offset.field",
        ConfigType.STRING,
        default=None,
        validator=_refuse_offset,
        documentation="The field for the Kafka offset. Not supported: only sinks know it.",
    )
    .define(
        "timestamp.field",
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        documentation=f"The field for the record's timestamp in milliseconds, if it has one. {_MARKS}",
    )
    .define(
        "static.field",
        ConfigType.STRING,
        default=None,
        validator=NonEmpty(),
        documentation=f"The field for `static.value`. {_MARKS}",
    )
    .define(
        "static.value",
        ConfigType.STRING,
        default=None,
        documentation="The value of `static.field`.",
        importance=Importance.MEDIUM,
    )
)


class _Insertion(NamedTuple):
    """A field to add, and whether it is optional."""

    name: str
    optional: bool
    schema: Schema


class InsertField(KeyOrValue):
    """Adds fields to a struct, or to a mapping without a schema. A key or value of None passes unchanged."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, config: Mapping[str, str]) -> None:
        settings = _CONFIG_DEF.parse(config)

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
