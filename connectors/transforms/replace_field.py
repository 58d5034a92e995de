"""ReplaceField: removes and renames fields."""

from collections.abc import Mapping

from ringfence.connectors.api import ConfigDef, ConfigException, ConfigType, Importance, Schema, SourceRecord, Struct
from ringfence.connectors.columns import Column
from ringfence.connectors.transforms.base import KeyOrValue, fill_defaults, halves, keep_for, replace_null
from ringfence.connectors.transforms.rebuilding import Rebuilt, basics


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
