"""Transforms of which fields there are, and where: ExtractField, HoistField, ValueToKey, ReplaceField (removes and
renames fields), Flatten. The location of a field is its name, or the path to a nested one (KIP-821).
"""

from collections.abc import Mapping

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Field,
    Importance,
    OneOf,
    Schema,
    SchemaType,
    SourceRecord,
    Struct,
)
from ringfence.connectors.api.schemas import describe_kind
from ringfence.connectors.columns import Column
from ringfence.connectors.transforms.base import (
    JAVA,
    KeyOrValue,
    Rebuilt,
    basics,
    define_items,
    fill_defaults,
    halves,
    keep_for,
    replace_null,
    value_of,
)


def field_syntax(keys: ConfigDef) -> ConfigDef:
    """Add the setting for the syntax of field paths."""
    return keys.define(
        "field.syntax.version",
        ConfigType.STRING,
        default="V1",
        validator=OneOf("V1", "V2", ignore_case=True),
        importance=Importance.HIGH,
        documentation="V1: a field's whole name. V2: a path of names separated by dots; a name with dots is in "
        "backticks.",
    )


class FieldPath:
    """The path to a field."""

    def __init__(self, setting: str, text: str, version: str) -> None:
        """Raises `ConfigException`, which names the setting."""
        self.text = text
        self.steps = [text] if version.upper() == "V1" else steps(setting, text)

    def field(self, schema: Schema) -> Field | None:
        """Return the field in a struct's schema; None if it does not exist."""
        current: Schema = schema
        inner: Field | None = None
        for number, step in enumerate(self.steps):
            inner = current.field(step)
            if inner is None:
                return None
            if number < len(self.steps) - 1:
                current = inner.schema
        return inner

    def in_struct(self, struct: Struct | None, defaults: bool) -> object:
        """Return the field's value; None if a step of the path is null or missing."""
        current: object = struct
        for step in self.steps:
            if current is None:
                return None
            if not isinstance(current, Struct):
                raise ConnectorError(f"{self.text} leads through {describe_kind(current)}, which has no fields.")
            if current.schema.field(step) is None:
                return None
            current = value_of(current, step, defaults)
        return current

    def in_mapping(self, mapping: Mapping[str, object] | None) -> object:
        """Return the field's value; None if a step of the path is null or missing."""
        current: object = mapping
        for step in self.steps:
            if current is None:
                return None
            if not isinstance(current, Mapping):
                raise ConnectorError(f"{self.text} leads through {describe_kind(current)}, which has no fields.")
            current = current.get(step)
        return current


def steps(setting: str, path: str) -> list[str]:
    """Return the names of a version 2 path.

    A backtick at the beginning of a name opens it, and the next one before a dot or the end closes it. After a
    backslash, a backtick is part of the name. Other backticks are literally part of the name.
    """
    names: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            name, at = _parse_quoted(setting, path, at)
        else:
            end = path.find(".", at)
            end = len(path) if end < 0 else end
            name, at = path[at:end], end + 1
        names.append(name)
    if path.endswith("."):
        names.append("")
    return names


def _parse_quoted(setting: str, path: str, opened: int) -> tuple[str, int]:
    """Return the name in backticks that begins at `opened`, and where the next name begins."""
    name, start = "", opened + 1
    at = start
    while (at := path.find("`", at)) >= 0:
        escaped, last = path[at - 1] == "\\", at == len(path) - 1
        if last and not escaped:
            return name + path[start:at], at + 1
        if not last and path[at + 1] == ".":
            if not escaped:
                return name + path[start:at], at + 2
            name, start = name + path[start : at - 1] + "`", at + 1
        at += 1
    raise ConfigException.invalid(
        setting,
        path,
        f"the backtick at position {opened} is never closed; escape it with a backslash, or add another after the name",
    )


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
    _CONFIG_DEF = replace_null(define_items(ConfigDef(), "fields", "The value's fields for the key."))

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


def parse_renames(name: str, items: list[str]) -> dict[str, str]:
    """Return new names by old ones. Raises `ConfigException`."""
    renames = {}
    for item in items:
        parts = item.split(":")
        if len(parts) != 2 or not parts[1]:
            raise ConfigException.invalid(name, ",".join(items), f"{item} does not have the form old:new")
        renames[parts[0]] = parts[1]
    return renames


def _are_renames(name: str, value: object) -> None:
    if isinstance(value, list):
        parse_renames(name, value)


class ReplaceField(KeyOrValue):
    """Keeps the fields of `include` (default: all) except those of `exclude`, and renames them by `renames`."""

    _CONFIG_DEF = replace_null(
        ConfigDef()
        .define(
            "exclude",
            ConfigType.LIST,
            default=[],
            documentation="Fields to remove; they take precedence over the fields to keep.",
        )
        .define(
            "include",
            ConfigType.LIST,
            default=[],
            documentation="Fields to keep. Default: all.",
        )
        .define(
            "renames",
            ConfigType.LIST,
            default=[],
            validator=_are_renames,
            importance=Importance.MEDIUM,
            documentation="New names, as old:new.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._exclude = frozenset(settings.strings("exclude"))
        self._include = frozenset(settings.strings("include"))
        self._renames = parse_renames("renames", settings.strings("renames"))
        self._defaults = settings.boolean("replace.null.with.default")
        self._schema = Rebuilt(self._rebuild)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if value is None:
            return record
        if schema is None:
            return self.replace_part(record, None, self._replace(self.mapping(record, value)))
        struct = self.struct(record, value)
        new_schema, names, places = self._schema(struct.schema)
        if not self._defaults:
            return self.replace_part(
                record, new_schema, Struct.of(new_schema, [keep_for(struct, name, False) for name in names])
            )
        values = struct.values_or_defaults()
        return self.replace_part(record, new_schema, Struct.of(new_schema, [values[place] for place in places]))

    @property
    def by_column(self) -> bool:
        return self._defaults and not self.on_key

    def apply_column(self, column: Column) -> bool:
        schema = column.schema
        if schema is None:
            pairs = zip(column.values, column.records, strict=True)
            column.values = [self._replace(self.mapping(record, value)) for value, record in pairs]
            return True
        if not column.structs:
            return False
        new_schema, _, places = self._schema(schema)
        rows = fill_defaults(schema, column.values)
        if places != list(range(len(schema.fields))):
            column.values = [[row[place] for place in places] for row in rows]
        column.schema = new_schema
        return True

    def _replace(self, mapping: Mapping[str, object]) -> dict[str, object]:
        renames, exclude, include = self._renames, self._exclude, self._include
        if not include:
            return {renames.get(name, name): each for name, each in mapping.items() if name not in exclude}
        names = include - exclude
        return {renames.get(name, name): each for name, each in mapping.items() if name in names}

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _rebuild(self, schema: Schema) -> tuple[Schema, list[str], list[int]]:
        """Return the new schema, and which fields of the old one it has: their names and positions."""
        fields = [field for field in schema.fields if self._keeps(field.name)]
        new_schema = basics(schema, {self._renames.get(name, name): inner for name, _, inner in fields})
        return new_schema, [field.name for field in fields], [field.place for field in fields]


ReplaceFieldKey, ReplaceFieldValue = halves(ReplaceField)


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
