"""Decodes the bytes of a record into a value for filters and a text for display: null, JSON, string, or hexadecimal.

Values with a schema of a Schema Registry are decoded with it: Avro, JSON Schema, Protobuf. Secrets of the connector's
configuration are removed first, so that neither a page nor a filter reveals them.

Whatever a record contains, it is decoded: what cannot be read as a structure is shown as text or hexadecimal, with the
reason. One record never hides a page.
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
from ringfence.connectors.sdk.values.nesting import DEEPEST, is_deep
from ringfence.engine.plugins.secret_removal import Scrubber

_SHOWN: Final = 8192
_HEX_BYTES: Final = 512
_PLAIN: Final = str.maketrans("", "", "\n\r\t")
_MOST_INDENTED: Final = 1 << 20
"""Longer texts get no line breaks: the breaks and blanks of a deep structure are many times its content."""
_TOO_DEEP: Final = f"it is nested more than {DEEPEST} levels deep"
_KINDS: Final = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """kind: null, empty, JSON, JSON with schema, string, hex, or the type of the registry's schema.

    value: for filters; text: for people; schema: its id or name; problem: why schema or structure were not used.
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
        try:
            return self._decode(data)
        except Exception as error:  # noqa: BLE001 - whatever a foreign record makes a library raise
            return self._hex(data, "", f"The value cannot be decoded ({type(error).__name__}).")

    def _decode(self, data: bytes) -> DecodedValue:
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
                    if not is_deep(read_value.value):
                        return self._structure(_KINDS[read_value.kind], _plain(read_value.value), schema)
                    problem = f"The value is not shown with its schema: {_TOO_DEEP}."
            problem = problem or self._why
        text = _as_text(data)
        if text is not None:
            return self._of_text(text)
        return self._hex(data, "" if number is None else f"schema (id {number})", problem)

    def _hex(self, data: bytes, schema: str, problem: str) -> DecodedValue:
        value = self._scrubber.value(data)
        raw = value if isinstance(value, bytes) else data
        tail = " …" if len(raw) > _HEX_BYTES else ""
        return DecodedValue("hex", raw.hex(), raw[:_HEX_BYTES].hex(" ") + tail, schema, problem)

    def _of_text(self, text: str) -> DecodedValue:
        try:
            document = json.loads(text)
            if is_deep(document):
                raise RecursionError
        except ValueError:
            return self._string(text)
        except RecursionError:
            return self._string(text, f"The value is not shown as JSON: {_TOO_DEEP}.")
        if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
            schema = document["schema"]
            name = schema.get("name") or schema.get("type") if isinstance(schema, dict) else None
            return self._structure("JSON with schema", document["payload"], str(name or "schemaless"))
        return self._structure("JSON", document, "")

    def _structure(self, kind: str, value: Any, schema: str) -> DecodedValue:
        clean = self._scrubber.value(value)
        text = _write(clean, ascii_only=False)
        if not _is_printable(text):
            text = _write(clean, ascii_only=True)  # escape sequences stay escaped
        return DecodedValue(kind, clean, text, schema)

    def _string(self, text: str, problem: str = "") -> DecodedValue:
        clean = self._scrubber.text(text)
        return DecodedValue("string", clean, clean, "", problem)


def _write(value: Any, *, ascii_only: bool) -> str:
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(indent=2, ensure_ascii=ascii_only, default=str).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST_INDENTED:
            return json.dumps(value, ensure_ascii=ascii_only, default=str)
    return "".join(pieces)


def _is_printable(text: str) -> bool:
    return text.translate(_PLAIN).isprintable()


def _as_text(data: bytes) -> str | None:
    """Return UTF-8 text if all of it is printable, else None. A character that is cut off at the end is left out."""
    for shorter in range(4):
        try:
            text = data[: len(data) - shorter].decode()
        except UnicodeDecodeError:
            continue
        return text if _is_printable(text) else None
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
    """Return the value with types that JSON has. value: not deep."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    convert = _PLAINLY.get(type(value))
    return convert(value) if convert else value
