"""Shows a record's way through transforms and converters, step by step.

Config providers are not used: references stay unresolved, since a transform could cut a secret into pieces and show
them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from ringfence.connectors.api import (
    ConfigException,
    ConnectorError,
    SchemaAndValue,
    SourceRecord,
    Struct,
    UnreadableRecord,
)
from ringfence.connectors.converters import ByteArrayConverter, header_converter, key_converter, value_converter
from ringfence.connectors.sdk.values.texts import text as value_text
from ringfence.connectors.transforms import Transform, build_transforms
from ringfence.connectors.transforms.keys import aliases
from ringfence.engine.plugins.errors import BadRequest
from ringfence.engine.plugins.secret_removal import Scrubber

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


_ERROR_LIMIT = 1000


class TransformationChain:
    """The transforms and converters of one configuration. `close` frees their resources."""

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str], scrubber: Scrubber) -> None:
        """config: with unresolved references. worker: its converter settings. Raises `BadRequest`."""
        self._scrubber = scrubber
        self._steps: list[tuple[str, str, Transform]] = []
        try:
            names = aliases(config, "transforms")
            types = [config[f"transforms.{name}.type"].strip() for name in names if f"transforms.{name}.type" in config]
            self._steps = list(zip(names, types, build_transforms(config), strict=True))
            self._key, self._value = key_converter(config, worker), value_converter(config, worker)
            self._header = header_converter(config, worker)
            self._key.trial()
            self._value.trial()
        except ConfigException as error:
            raise BadRequest(scrubber.text(str(error))) from error

    @property
    def raw(self) -> bool:
        """Whether the task may return a `RecordBatch`.

        Only if the converter accepts nothing else: single records each show their offset.
        """
        both = (self._key, self._value)
        legal = not self._steps and all(converter.to_bytes_is_identity for converter in both)
        return legal and any(isinstance(converter, ByteArrayConverter) for converter in both)

    def walk(self, record: SourceRecord) -> dict[str, object]:
        """Return `{"before", "steps", "outcome", "written", "error"}`; outcome: written, dropped or failed.

        Each step is `{"name", "type", "outcome", "record", "error"}`; outcome: changed, unchanged, dropped or failed.
        """
        current = self._scrubber.record(record)
        result: dict[str, object] = {
            "before": describe_record(current, self._scrubber.text),
            "written": None,
            "error": "",
        }
        steps: list[dict[str, object]] = []
        result["steps"] = steps
        if isinstance(record, UnreadableRecord):
            return {**result, "outcome": "failed", "error": self._describe(record.error)}
        for name, type_, transform in self._steps:
            step: dict[str, object] = {"name": name, "type": type_, "record": None, "error": ""}
            steps.append(step)
            try:
                out = transform.apply(current)
            except Exception as error:  # noqa: BLE001 - foreign code: its error is the answer
                step["outcome"], step["error"] = "failed", self._describe(error)
                return {**result, "outcome": "failed", "error": step["error"]}
            if out is None:
                step["outcome"] = "dropped"
                return {**result, "outcome": "dropped"}
            step["outcome"] = "unchanged" if out is current else "changed"
            step["record"] = describe_record(out, self._scrubber.text)
            current = out
        try:
            output = self._convert(current)
        except Exception as error:  # noqa: BLE001 - foreign code: its error is the answer
            return {**result, "outcome": "failed", "error": self._describe(error)}
        return {**result, "outcome": "written", "written": output}

    def close(self) -> None:
        for _, _, transform in self._steps:
            transform.close()

    def _convert(self, record: SourceRecord) -> dict[str, object]:
        topic = record.topic
        headers = self._header.from_headers(topic, record.headers or ())
        key = self._key.from_record(topic, record.key, record.key_schema)
        value = self._value.from_record(topic, record.value, record.value_schema)
        return describe_output(record, key, value, headers, self._scrubber.text)

    def _describe(self, error: Exception) -> str:
        text = str(error) if isinstance(error, ConnectorError) else f"{type(error).__name__}: {error}"
        return readable(self._scrubber.text(text))[:_ERROR_LIMIT]


def sample(fields: Mapping[str, object]) -> SourceRecord:
    """Return the record of a trial: topic, key, value, headers ([name, value] pairs), timestamp, partition.

    Raises `BadRequest`.
    """
    topic, headers = fields.get("topic"), fields.get("headers") or []
    if not isinstance(topic, str) or not topic.strip():
        raise BadRequest("The sample record needs a topic: a string.")
    if not isinstance(headers, list) or not all(
        isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in headers
    ):
        raise BadRequest('The headers of the sample record must be a list of pairs: [["name", value], …].')
    for name in ("timestamp", "partition"):
        number = fields.get(name)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
            raise BadRequest(f"The {name} of the sample record must be a non-negative integer, or be omitted.")
    pairs = [(str(name), value) for name, value in cast("list[list[object]]", headers)]
    timestamp, partition = cast("int | None", fields.get("timestamp")), cast("int | None", fields.get("partition"))
    return SourceRecord({}, None, topic.strip(), fields.get("value"), fields.get("key"), pairs, timestamp, partition)
