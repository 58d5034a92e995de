"""The converter of connectors and workers that name none."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import Schema, SchemaType, Struct
from ringfence.connectors.converters.json_converter import JsonConverter
from ringfence.connectors.converters.simple import StringConverter

_STRUCTURES = (SchemaType.STRUCT, SchemaType.MAP, SchemaType.ARRAY)


class TextOrJsonConverter(StringConverter):
    """Strings, bytes and single values as StringConverter writes them; structs, mappings and lists as JSON without a
    schema, so that a row of a database is not `Struct{id=1,…}`.

    A worker or connector that names a converter gets that one, as in Kafka Connect, which has no default.
    """

    aliases: ClassVar[tuple[str, ...]] = ()

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        super().configure(config, is_key)
        self._json = JsonConverter()
        self._json.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key)

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if isinstance(value, Struct | Mapping | list | tuple) or (schema is not None and schema.type in _STRUCTURES):
            return self._json.from_record(topic, value, schema)
        return super().from_record(topic, value, schema)

    def from_batch(self, topic: str, values: Sequence[object], schema: Schema | None = None) -> list[bytes | None]:
        if schema is not None and schema.type in _STRUCTURES:
            return self._json.from_batch(topic, values, schema)
        return super().from_batch(topic, values, schema)
