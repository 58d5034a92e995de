"""ExtractNewRecordState: reduces Debezium's change events to the current row."""

from collections.abc import Callable, Mapping
from typing import Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    OneOf,
    Schema,
    SchemaAndValue,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.schemas import STRING, optional
from ringfence.connectors.columns import Column
from ringfence.connectors.transforms.base import Rebuilt, Transform, basics

_DELETES: Final = "delete.tombstone.handling.mode"
_DROP: Final = "drop"
_TOMBSTONE: Final = "tombstone"
_REWRITE: Final = "rewrite"
_REWRITE_WITH_TOMBSTONE: Final = "rewrite-with-tombstone"
_DELETE_TO_TOMBSTONE: Final = "delete-to-tombstone"
_DELETED: Final = "__deleted"

Get = Callable[[Struct], object]


class _AddedField:
    """One item of `add.fields` or `add.headers`: `op`, `source.lsn`, `transaction.id:name`."""

    def __init__(self, item: str, prefix: str) -> None:
        path, _, name = item.partition(":")
        self.block, _, self.field = path.rpartition(".")
        self.name = prefix + (name or path.replace(".", "_"))

    def find(self, envelope: Schema) -> tuple[Schema, Get] | None:
        """Return its schema in events of this schema, and how to read it; None if they have no such field."""
        if not self.block and (field := envelope.field(self.field)) is not None:
            return field.schema, lambda event: event.raw_value(self.field)
        block = self.block or "source"
        outer = envelope.field(block)
        inner = outer.schema.field(self.field) if outer is not None else None
        if inner is None:
            return None

        def get(event: Struct) -> object:
            content = event.raw_value(block)
            return content.raw_value(self.field) if isinstance(content, Struct) else None

        return inner.schema, get


class _Shape:
    """For events of one schema: the schema of the result, and what is added."""

    def __init__(self, schema: Schema, fields: list[_AddedField], headers: list[_AddedField], *, deleted: bool) -> None:
        after = schema.field("after")
        assert after is not None
        self.row = after.schema
        schemas = {name: inner for name, _, inner in self.row.fields}
        if deleted:
            schemas[_DELETED] = optional(STRING)
        self.gets: list[Get] = []
        for added in fields:
            if (source := added.find(schema)) is not None:
                schemas[added.name] = source[0].but(optional=True, default=None)
                self.gets.append(source[1])
        self.schema = basics(self.row, schemas)
        self.headers = [(added.name, *source) for added in headers if (source := added.find(schema)) is not None]


class ExtractNewRecordState(Transform):
    """Replaces a change event by its row. Other records pass."""

    name = "ExtractNewRecordState"
    aliases = ("io.debezium.transforms.ExtractNewRecordState",)

    _CONFIG_DEF = (
        ConfigDef()
        .define(
            _DELETES,
            ConfigType.STRING,
            default=_TOMBSTONE,
            validator=OneOf(_DROP, _TOMBSTONE, _REWRITE, _REWRITE_WITH_TOMBSTONE, _DELETE_TO_TOMBSTONE),
            importance=Importance.MEDIUM,
            documentation="How to handle deletes and the tombstones after them.",
        )
        .define(
            "add.fields",
            ConfigType.LIST,
            default=[],
            importance=Importance.LOW,
            documentation="Fields of the event to add to the row: op, source.lsn, transaction.id:name.",
        )
        .define(
            "add.fields.prefix",
            ConfigType.STRING,
            default="__",
            importance=Importance.LOW,
            documentation="The prefix of their names.",
        )
        .define(
            "add.headers",
            ConfigType.LIST,
            default=[],
            importance=Importance.LOW,
            documentation="Fields of the event to add as headers.",
        )
        .define(
            "add.headers.prefix",
            ConfigType.STRING,
            default="__",
            importance=Importance.LOW,
            documentation="The prefix of their names.",
        )
        .define(
            "route.by.field",
            ConfigType.STRING,
            default="",
            importance=Importance.LOW,
            documentation="A field of the row that contains the topic.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        if refused := sorted(name for name in config if name.startswith("drop.fields.")):
            raise ConfigException(f"{refused[0]} of Debezium's transform is not supported. Use ReplaceField.")
        self._deletes = settings.string(_DELETES)
        self._rewrites = self._deletes in (_REWRITE, _REWRITE_WITH_TOMBSTONE)
        self._route = settings.string("route.by.field")
        self._fields, self._headers = (
            [_AddedField(str(item), settings.string(f"{name}.prefix")) for item in items]
            for name in ("add.fields", "add.headers")
            for items in [settings[name]]
            if isinstance(items, list)
        )
        self._shape = Rebuilt(lambda schema: _Shape(schema, self._fields, self._headers, deleted=self._rewrites))

    @property
    def by_column(self) -> bool:
        return not self._headers and not self._route

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        event = record.value
        if event is None:
            return record if self._deletes == _REWRITE_WITH_TOMBSTONE else None
        if not isinstance(event, Struct) or not _is_envelope(event.schema):
            return record
        op = event["op"]
        shape = self._shape(event.schema)
        row = event.raw_value("before" if op == "d" else "after")
        if not isinstance(row, Struct) or (op == "d" and self._deletes == _DROP):
            return None
        changed = record.copy()
        if shape.headers:
            added = [(name, SchemaAndValue(schema, get(event))) for name, schema, get in shape.headers]
            changed.headers = [*record.headers, *added]
        if self._route:
            changed.topic = self._topic(row)
        if op == "d" and not self._rewrites:
            changed.value, changed.value_schema = None, None if self._deletes == _DELETE_TO_TOMBSTONE else shape.row
        else:
            changed.value, changed.value_schema = Struct.of(shape.schema, self._values(shape, event, row)), shape.schema
        return changed

    def _values(self, shape: _Shape, event: Struct, row: Struct) -> list[object]:
        values = row.values_or_defaults()
        if self._rewrites:
            values.append("true" if event["op"] == "d" else "false")
        return values + [get(event) for get in shape.gets]

    def _topic(self, row: Struct) -> str:
        value = row[self._route]
        if not isinstance(value, str) or not value:
            raise ConnectorError(f"The field {self._route}, which route.by.field names, does not contain a topic name.")
        return value

    def apply_column(self, column: Column) -> bool:
        envelope = column.schema
        if envelope is None or not column.structs or not _is_envelope(envelope):
            return False
        shape = self._shape(envelope)
        rows = []
        for values in column.values:
            event = Struct.of(envelope, values)
            row = event.raw_value("after")
            if not isinstance(row, Struct):
                return False
            rows.append(self._values(shape, event, row))
        column.schema, column.values = shape.schema, rows
        return True


def _is_envelope(schema: Schema) -> bool:
    if schema.name is None or not schema.name.endswith(".Envelope"):
        return False
    after = schema.field("after")
    return after is not None and after.schema.type is SchemaType.STRUCT
