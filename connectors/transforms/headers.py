"""Transforms of headers: DropHeaders, HeaderFrom, InsertHeader."""

from collections.abc import Mapping

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    OneOf,
    Schema,
    SchemaAndValue,
    SourceRecord,
    Struct,
)
from ringfence.connectors.sdk.values.literals import parse
from ringfence.connectors.transforms.base import (
    JAVA,
    KeyOrValue,
    Rebuilt,
    Transform,
    basics,
    define_items,
    halves,
    keep_for,
    replace_null,
)


class DropHeaders(Transform):
    """Removes all headers with some names."""

    name = "DropHeaders"
    aliases = (JAVA + name,)
    _CONFIG_DEF = define_items(ConfigDef(), "headers", "The names of the headers to remove.")

    def configure(self, config: Mapping[str, str]) -> None:
        self._names = frozenset(self._CONFIG_DEF.parse(config).strings("headers"))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        remaining = [(name, value) for name, value in record.headers if name not in self._names]
        if len(remaining) == len(record.headers):
            return record
        changed = record.copy()
        changed.headers = remaining
        return changed


class InsertHeader(Transform):
    """Adds a header to each record."""

    name = "InsertHeader"
    aliases = (JAVA + name,)
    _CONFIG_DEF = (
        ConfigDef()
        .define(
            "header",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The header's name.",
        )
        .define(
            "value.literal",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The header's value: parsed as a number, true or false, a date, a list or a mapping if it "
            "has that form, else a string.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        literal = parse(settings.string("value.literal"))
        self._header = (settings.string("header"), literal)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        changed = record.copy()
        changed.headers = [*record.headers, self._header]
        return changed


class HeaderFrom(KeyOrValue):
    """Moves fields into headers, or copies them there."""

    _CONFIG_DEF = replace_null(
        define_items(
            define_items(ConfigDef(), "fields", "The fields."),
            "headers",
            "The headers' names, in the order of the fields.",
        ).define(
            "operation",
            ConfigType.STRING,
            validator=OneOf("move", "copy"),
            importance=Importance.HIGH,
            documentation="move: the fields are removed from the key or value; copy: they are kept.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        fields, headers = settings.strings("fields"), settings.strings("headers")
        if len(fields) != len(headers):
            raise ConfigException("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs = list(zip(fields, headers, strict=True))
        self._fields = frozenset(fields)
        self._move = settings.string("operation") == "move"
        self._defaults = settings.boolean("replace.null.with.default")
        self._schema = Rebuilt(self._rebuild)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if schema is None:
            mapping = self.mapping(record, value)
            added = [(header, SchemaAndValue(None, mapping.get(name))) for name, header in self._pairs]
            left: object = {name: each for name, each in mapping.items() if not (self._move and name in self._fields)}
        else:
            struct = self.struct(record, value)
            added = [(header, self._of(struct, name)) for name, header in self._pairs]
            left = struct
            if self._move:
                schema = self._schema(struct.schema)
                left = Struct.of(schema, [keep_for(struct, name, self._defaults) for name in schema.names])
        changed = self.replace_part(record, schema, left)
        changed.headers = [*record.headers, *added]
        return changed

    def _of(self, struct: Struct, name: str) -> SchemaAndValue:
        field = struct.schema.field(name)
        if field is None:
            raise ConnectorError(f"HeaderFrom finds no field {name}: the fields are {', '.join(struct.schema.names)}.")
        return SchemaAndValue(field.schema, keep_for(struct, name, self._defaults))

    def _rebuild(self, schema: Schema) -> Schema:
        return basics(schema, {name: inner for name, _, inner in schema.fields if name not in self._fields})


HeaderFromKey, HeaderFromValue = halves(HeaderFrom)
