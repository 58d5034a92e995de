"""Shows a record's way through transforms and converters, step by step: those of Python, or Java's in its own process.

Config providers are not used: references stay unresolved, since a transform could cut a secret into pieces and show
them.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from ringfence.connectors.api import ConfigException, ConnectorError, Schema, SourceRecord, UnreadableRecord
from ringfence.connectors.converters import (
    ByteArrayConverter,
    Converter,
    JsonConverter,
    header_converter,
    key_converter,
    value_converter,
)
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.transforms import Transform, build_transforms
from ringfence.connectors.transforms.registry import aliases
from ringfence.engine.plugins.errors import BadRequest
from ringfence.engine.plugins.record_display import WithSchema, describe_output, describe_record, readable
from ringfence.engine.plugins.secret_removal import Scrubber

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
        registered = (
            _describe_registered(self._key, topic, record.key, record.key_schema),
            _describe_registered(self._value, topic, record.value, record.value_schema),
        )
        return describe_output(record, key, value, headers, self._scrubber.text, registered)

    def _describe(self, error: Exception) -> str:
        text = str(error) if isinstance(error, ConnectorError) else f"{type(error).__name__}: {error}"
        return readable(self._scrubber.text(text))[:_ERROR_LIMIT]


def _describe_registered(converter: Converter, topic: str, value: object, schema: Schema | None) -> WithSchema | None:
    """Return what the bytes of this converter mean, if they have only the id of their schema."""
    text = converter.schema_text(topic, value, schema)
    if text is None:
        return None
    payload = _readable_json().from_record(topic, value, schema)
    return WithSchema(text[0], text[1], (payload or b"null").decode("utf-8", "replace"))


@cache
def _readable_json() -> JsonConverter:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)
    return converter


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


_JAVA_ERROR_LIMIT: Final = 1000


def walk_in_java(
    connector: JavaSourceConnector,
    config: Mapping[str, str],
    parts: Mapping[str, str],
    record: SourceRecord,
    scrubber: Scrubber,
) -> dict[str, object]:
    """Return the same keys as for a Python connector. parts: of `config`, with unresolved references.

    Raises `BadRequest`.
    """
    clean = scrubber.record(record)
    try:
        answer = connector.try_record(parts, _as_json(clean))
    except ConnectorError as error:
        raise BadRequest(scrubber.text(str(error))) from error
    output = answer.get("written")
    return {
        "before": describe_record(clean, scrubber.text),
        "steps": list(_steps(config, answer["steps"], scrubber)),
        "outcome": answer["outcome"],
        "written": None if output is None else _describe_written(output, scrubber),
        "error": _short(answer["error"], scrubber),
    }


def _steps(
    config: Mapping[str, str], steps: Sequence[Mapping[str, Any]], scrubber: Scrubber
) -> Iterator[dict[str, object]]:
    """Yield the steps that the record has reached."""
    for name, step in zip(aliases(config, "transforms"), steps, strict=False):
        record = step.get("record")
        yield {
            "name": name,
            "type": config.get(f"transforms.{name}.type", "").strip(),
            "outcome": step["outcome"],
            "record": None if record is None else describe_record(_record(record), scrubber.text),
            "error": _short(step.get("error", ""), scrubber),
        }


def _describe_written(record: Mapping[str, Any], scrubber: Scrubber) -> dict[str, object]:
    headers = [(name, _bytes(value)) for name, value in record["headers"]]
    return describe_output(
        _record({**record, "headers": []}), _bytes(record["key"]), _bytes(record["value"]), headers, scrubber.text
    )


def _as_json(record: SourceRecord) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": [list(each) for each in record.headers or ()],
    }


def _record(fields: Mapping[str, Any]) -> SourceRecord:
    headers = [(name, value) for name, value in fields["headers"]]
    place = fields["timestamp"], fields["partition"]
    return SourceRecord({}, None, fields["topic"], fields["value"], fields["key"], headers, *place)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _short(error: str, scrubber: Scrubber) -> str:
    return readable(scrubber.text(error))[:_JAVA_ERROR_LIMIT]
