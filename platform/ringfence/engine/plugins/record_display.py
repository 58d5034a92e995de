"""Converts records to JSON values of limited size, for previews."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import SchemaAndValue, SourceRecord, Struct
from ringfence.connectors.sdk.values.texts import text as value_text

TEXT_LIMIT: Final = 2000
"""The maximum number of characters that are shown of a key, value or header."""
SCHEMA_LIMIT: Final = 20_000
"""The same of a schema."""
ENVELOPE: Final = "CONNECT"
"""The format of a schema that stands in each record: Kafka Connect's, as JSON."""
_HEADER_LIMIT: Final = 20

Hide = Callable[[str], str]
"""Removes secrets from a string, before it is cut."""


def describe_record(record: SourceRecord, hide: Hide) -> dict[str, object]:
    """Return topic, partition, timestamp, key and value as `describe_value`, and headers as [name, value] pairs."""
    return {
        "topic": hide(readable(record.topic))[:TEXT_LIMIT],
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": describe_value(record.key, hide),
        "value": describe_value(record.value, hide),
        "headers": _headers(record.headers or (), hide),
    }


@dataclass(frozen=True, slots=True)
class WithSchema:
    """What bytes with a schema, or its id, mean. format: as the registry names it, or `ENVELOPE`; payload: the value as
    JSON.
    """

    format: str
    schema: str
    payload: str


def describe_output(
    record: SourceRecord,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    hide: Hide,
    registered: tuple[WithSchema | None, WithSchema | None] = (None, None),
) -> dict[str, object]:
    """Do the same for the result of the converters. A key or value with a schema also has `"schema"`, with the format
    and the text, and `"payload"`, what is in it without the schema. registered: those of key and value.
    """
    output = {
        "key": _describe_converted(key, registered[0], hide),
        "value": _describe_converted(value, registered[1], hide),
        "headers": _headers(headers, hide),
    }
    return {**describe_record(record, hide), **output}


def _describe_converted(data: bytes | None, registered: WithSchema | None, hide: Hide) -> dict[str, object] | None:
    description = describe_value(data, hide)
    if description is None or data is None:
        return None
    parts = registered or _split_envelope(data)
    if parts is None:
        return description
    schema = {"format": parts.format, **_limit(parts.schema, hide, SCHEMA_LIMIT)}
    return {**description, "payload": _limit(parts.payload, hide, TEXT_LIMIT), "schema": schema}


def _split_envelope(data: bytes) -> WithSchema | None:
    """Return the parts of `{"schema": …, "payload": …}`, which JSON with a schema is; None for other bytes."""
    if not data.startswith(b'{"schema":{'):
        return None
    try:
        envelope = json.loads(data)
    except ValueError:
        return None
    if envelope.keys() != {"schema", "payload"}:
        return None
    return WithSchema(ENVELOPE, _json(envelope["schema"]), _json(envelope["payload"]))


def describe_value(value: object, hide: Hide) -> dict[str, object] | None:
    """Return `{"type", "text", "cut"}`; None for None. `cut`: the number of characters that are left out."""
    match value:
        case None:
            return None
        case str():
            kind, text = "text", value
        case bytes() | bytearray() | memoryview():
            kind, text = "bytes", _of_bytes(bytes(value))
        case bool():
            kind, text = "boolean", "true" if value else "false"
        case int() | float():
            kind, text = "number", str(value)
        case dict():
            kind, text = "object", _json(value)
        case SchemaAndValue():  # a tuple, too
            return describe_value(value.value, hide)
        case list() | tuple():
            kind, text = "list", _json(value)
        case Struct():
            kind, text = "struct", value_text(value)
        case _:
            kind, text = type(value).__name__, str(value)
    return {"type": kind, **_limit(text, hide, TEXT_LIMIT)}


def _limit(text: str, hide: Hide, most: int) -> dict[str, object]:
    text = hide(readable(text))
    return {"text": text[:most], "cut": max(0, len(text) - most)}


def readable(text: str) -> str:
    """Return the text without characters that cannot be encoded: lone surrogates, which represent raw bytes."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def size_of(record: SourceRecord) -> int:
    """Return the approximate size of key and value in bytes."""
    return sum(
        len(value) if isinstance(value, str | bytes) else len(str(value)) for value in (record.key, record.value)
    )


def _headers(headers: Sequence[tuple[str, object]], hide: Hide) -> list[list[object]]:
    return [[hide(readable(name))[:TEXT_LIMIT], describe_value(value, hide)] for name, value in headers[:_HEADER_LIMIT]]


def _of_bytes(value: bytes) -> str:
    """Return UTF-8 text, else hexadecimal."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are not strings, or circular references
        return str(value)
