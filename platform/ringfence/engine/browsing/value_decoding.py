"""Decodes the bytes of a record into a value for filters and a text for display: null, JSON, string, or hexadecimal.

Values with a schema of a Schema Registry are decoded with it: Avro, JSON Schema, Protobuf. Secrets of the connector's
configuration are removed first, so that neither a page nor a filter reveals them.
"""

import datetime as dt
import decimal
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.converters.registry.reading import SchemaReader, schema_id
from ringfence.engine.plugins.secret_removal import Scrubber

_SHOWN: Final = 8192
_HEX_BYTES: Final = 512
_PLAIN: Final = "\n\r\t"
_KINDS: Final = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """kind: null, empty, JSON, JSON with schema, string, hex, or the type of the registry's schema.

    value: for filters; text: for people; schema: its id or name; problem: why the schema was not used.
    """

    kind: str
    value: Any
    text: str
    schema: str = ""
    problem: str = ""

    def as_json(self, size: int, read: int) -> dict[str, object]:
        """Return the JSON for a page. size: of the whole value, -1 for null; read: how much was decoded, in bytes."""
        cut = len(self.text) > _SHOWN or read < size
        return {
            "kind": self.kind,
            "text": self.text[:_SHOWN],
            "size": size,
            "cut": cut,
            "schema": self.schema,
            "problem": self.problem,
        }


class Decoder:
    """Decodes the keys, or the values, of one question."""

    def __init__(self, reader: SchemaReader | None, scrubber: Scrubber, why_no_reader: str = "") -> None:
        self._reader = reader
        self._scrubber = scrubber
        self._why = why_no_reader

    def decode(self, data: bytes | None) -> DecodedValue:
        if data is None:
            return DecodedValue("null", None, "null")
        if not data:
            return DecodedValue("empty", "", "")
        number = schema_id(data)
        problem = ""
        if number is not None:
            if self._reader is not None:
                try:
                    read_value = self._reader.read(data)
                except ConnectorError as error:
                    problem = str(error)
                else:
                    schema = f"{read_value.name or 'schema'} (id {read_value.id})"
                    return self._structure(_KINDS[read_value.kind], _plain(read_value.value), schema)
            problem = problem or self._why
        text = _as_text(data)
        if text is not None:
            return self._of_text(text)
        value = self._scrubber.value(data)
        raw = value if isinstance(value, bytes) else data
        schema = "" if number is None else f"schema (id {number})"
        tail = " …" if len(raw) > _HEX_BYTES else ""
        return DecodedValue("hex", raw.hex(), raw[:_HEX_BYTES].hex(" ") + tail, schema, problem)

    def _of_text(self, text: str) -> DecodedValue:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            clean = self._scrubber.text(text)
            return DecodedValue("string", clean, clean)
        if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
            schema = document["schema"]
            name = schema.get("name") or schema.get("type") if isinstance(schema, dict) else None
            return self._structure("JSON with schema", document["payload"], str(name or "schemaless"))
        return self._structure("JSON", document, "")

    def _structure(self, kind: str, value: Any, schema: str) -> DecodedValue:
        clean = self._scrubber.value(value)
        text = json.dumps(clean, indent=2, ensure_ascii=False, default=str)
        if not all(char.isprintable() or char in _PLAIN for char in text):
            text = json.dumps(clean, indent=2, default=str)  # escape sequences stay escaped
        return DecodedValue(kind, clean, text, schema)


def _as_text(data: bytes) -> str | None:
    """Return UTF-8 text if all of it is printable, else None. A character that is cut off at the end is left out."""
    for shorter in range(4):
        try:
            text = data[: len(data) - shorter].decode()
        except UnicodeDecodeError:
            continue
        return text if all(char.isprintable() or char in _PLAIN for char in text) else None
    return None


_PLAINLY: Final[dict[type, Callable[[Any], object]]] = {
    bytes: lambda value: value.hex(),
    decimal.Decimal: str,
    uuid.UUID: str,
    dt.datetime: dt.datetime.isoformat,
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
}


def _plain(value: Any) -> Any:
    """Return the value with types that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    convert = _PLAINLY.get(type(value))
    return convert(value) if convert else value
