"""SetSchemaMetadata: sets a schema's name or version."""

from collections.abc import Mapping

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    Schema,
    SourceRecord,
    Struct,
)
from ringfence.connectors.transforms.base import KeyOrValue, halves, replace_null, values_of
from ringfence.connectors.transforms.rebuilding import Rebuilt


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
