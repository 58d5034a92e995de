"""Converts records to JSON values of limited size, for previews."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from ringfence.connectors.api import SchemaAndValue, SourceRecord, Struct
from ringfence.connectors.sdk.values.texts import text as value_text

TEXT_LIMIT: Final = 2000
"""The maximum number of characters that are shown of a key, value or header."""
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


def describe_output(
    record: SourceRecord,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    hide: Hide,
) -> dict[str, object]:
    """Do the same for the result of the converters."""
    output = {
        "key": describe_value(key, hide),
        "value": describe_value(value, hide),
        "headers": _headers(headers, hide),
    }
    return {**describe_record(record, hide), **output}


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
    text = hide(readable(text))
    return {"type": kind, "text": text[:TEXT_LIMIT], "cut": max(0, len(text) - TEXT_LIMIT)}


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
