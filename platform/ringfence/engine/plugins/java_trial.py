"""A record's way through Java's transforms and converters, in the form of `trial.TransformationChain.walk`."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, SourceRecord
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.transforms.registry import aliases
from ringfence.engine.plugins.errors import BadRequest
from ringfence.engine.plugins.record_display import describe_output, describe_record, readable
from ringfence.engine.plugins.secret_removal import Scrubber

_ERROR_LIMIT: Final = 1000


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
    return readable(scrubber.text(error))[:_ERROR_LIMIT]
