"""The format of dead letters: the failed record as it was, the details of its failure, and the mark of a replay.

`fencing.records.error_handling` writes a dead letter in the transaction of its source offset. A replay
(`fencing.dead_letters`) writes a mark with its position later in the same partition, so the mark cannot expire
before the dead letter.
"""

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.connectors.api import SchemaAndValue, SourceRecord, Struct
from ringfence.connectors.api.errors import BadRecord
from ringfence.connectors.api.records import UNREADABLE
from ringfence.connectors.class_names import class_name
from ringfence.connectors.sdk.values.exact import Inexact, Reading, Writing
from ringfence.connectors.sdk.values.texts import text as value_text
from ringfence.connectors.transforms.registry import aliases
from ringfence.fencing.ids import TaskId
from ringfence.fencing.topics.status.failed_record import RecordFailure, shorten
from ringfence.fencing.topics.status_entry import NOTE
from ringfence.fencing.transactions.record_columns import Record

_ATTRIBUTE: Final = "ringfence_record_failure"


def find_failed_record(
    error: Exception, config: Mapping[str, str], redact: Callable[[str], str]
) -> RecordFailure | None:
    """Find the record of an error or of its causes. If the plugin named it, append it to the error's stack trace.

    config: the connector's. redact: takes secrets out of a string.
    """
    failure = failure_of(error)
    cause: BaseException | None = error
    while failure is None and cause is not None:
        record = getattr(cause, "record", None)
        if isinstance(record, BadRecord):
            failure = _failure(record, config, redact)
            error.add_note(f"{NOTE}{failure.stage}, class {failure.class_name}, source offset {failure.offset}.")
        cause = cause.__cause__
    return failure


def _failure(record: BadRecord, config: Mapping[str, str], redact: Callable[[str], str]) -> RecordFailure:
    names = aliases(config, "transforms")
    alias = names[record.step] if 0 <= record.step < len(names) else ""
    return RecordFailure(
        record.stage,
        record.class_name,
        alias,
        settings_of(config, record.stage, alias),
        record.topic,
        redact(record.source_partition),
        redact(record.source_offset),
        shorten(redact(record.value)),
    )


def attach(error: Exception, failure: RecordFailure) -> None:
    """Attach the failure to the error, for `failure_of`."""
    setattr(error, _ATTRIBUTE, failure)


def failure_of(error: BaseException | None) -> RecordFailure | None:
    """Return the failure attached to the error or to one of its causes; None if there is none."""
    while error is not None:
        failure = getattr(error, _ATTRIBUTE, None)
        if isinstance(failure, RecordFailure):
            return failure
        error = error.__cause__
    return None


def settings_of(config: Mapping[str, str], stage: str, alias: str) -> tuple[str, ...]:
    """Return the names of the settings that configure a transform or converter.

    alias: the transform's, "" for a converter. Settings of the framework, such as `predicate`, are left out.
    """
    if alias:
        prefix = f"transforms.{alias}."
        framework = {prefix + name for name in ("type", "predicate", "negate", "plugin.version")}
        return tuple(sorted(name for name in config if name.startswith(prefix) and name not in framework))
    prefix = stage.lower().replace("_", ".")
    own = sorted(name for name in config if name.startswith(f"{prefix}."))
    return (prefix, *own)


PREFIX: Final = "__connect.errors."
RECORD: Final = PREFIX + "record"
"""The header that holds the exact record: `record_text`."""
REPLAYED: Final = PREFIX + "replayed"
"""The header of a mark: the offset of the replayed dead letter, in the same partition."""
CONNECTOR: Final = PREFIX + "connector.name"

_LARGEST: Final = 400_000
"""The maximum size of `RECORD` in bytes: together with the value itself, well below a broker's default limit."""
_VERSION: Final = 1

Headers = Sequence[tuple[str, bytes | None]]
Place = tuple[int, int]
"""Partition and offset of a dead letter."""


class NotExact(Exception):
    """The dead letter does not hold its exact record. The message says why, and what to do."""


def make_dead_letter(
    record: SourceRecord, task: TaskId, stage: str, by: str, error: Exception, redact: Callable[[str], str]
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """Return key, value and headers: the record as the connector returned it, and the details of its failure.

    by: the class that failed. redact: takes secrets out of the error's message and stack trace.
    """
    key, value = as_bytes(record.key), as_bytes(record.value)
    texts = {
        "topic": record.topic,
        "connector.name": task.connector,
        "task.id": str(task.task),
        "stage": stage,
        "class.name": by,
        "exception.class.name": class_name(type(error.__cause__ or error)),
        "exception.message": redact(str(error)),
        "exception.stacktrace": redact("".join(traceback.format_exception(error))),
        "source.partition": as_json(record.source_partition),
        "source.offset": as_json(record.source_offset),
        "record": record_text(record, key, value),
    }
    headers = [(name, as_bytes(each)) for name, each in record.headers]
    headers += [(PREFIX + name, text.encode()) for name, text in texts.items()]
    return key, value, headers


def record_text(record: SourceRecord, key: bytes | None, value: bytes | None) -> str:
    """Return, as JSON, what the dead letter's key and value do not say; its `lost` says why the record cannot
    be kept.
    """
    if record.value_schema is UNREADABLE:
        return _unexact("its source could not read the row; correct it there")
    writing = Writing()
    try:
        parts: dict[str, object] = {
            "key": _part(writing, record.key, key),
            "key_schema": writing.schema(record.key_schema),
            "value": _part(writing, record.value, value),
            "value_schema": writing.schema(record.value_schema),
            "headers": [[name, writing.value(each)] for name, each in record.headers or ()],
            "timestamp": record.timestamp,
            "partition": record.partition,
        }
        text = json.dumps({"version": _VERSION, "schemas": writing.schemas, **parts}, separators=(",", ":"))
    except Inexact as error:
        return _unexact(str(error))
    except (RecursionError, TypeError, ValueError) as error:
        return _unexact(f"it has no form in JSON ({type(error).__name__})")
    if len(text) > _LARGEST:
        return _unexact(
            f"it takes {len(text)} bytes as JSON, beside the letter's own value, and at most {_LARGEST} fit"
        )
    return text


def _unexact(why: str) -> str:
    return json.dumps({"version": _VERSION, "lost": why})


def _part(writing: Writing, part: object, own: bytes | None) -> object:
    """Bytes and strings are already in the dead letter itself."""
    if own is not None and type(part) is bytes:
        return {"own": "bytes"}
    if own is not None and type(part) is str and _text(own) == part:
        return {"own": "text"}
    return writing.value(part)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as it was read from its topic."""

    place: Place
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def header(self, name: str) -> str:
        """Return the value of one of our headers, "" if it is missing. The last one counts, because the source record
        may have had headers of the same name.
        """
        return text_of(self.headers, PREFIX + name)

    @property
    def connector(self) -> str:
        return self.header("connector.name")

    @property
    def size(self) -> int:
        parts = (self.key, self.value, *(value for _, value in self.headers))
        return sum(len(part) for part in parts if part is not None)

    def record(self) -> SourceRecord:
        """Return the record as the connector returned it. Raises `NotExact`."""
        text = self.header("record")
        if not text:
            raise NotExact(
                "The letter does not hold the record exactly: an earlier version, or other software, wrote it"
            )
        try:
            fields = json.loads(text)
            if "lost" in fields:
                raise NotExact(f"The record could not be kept exactly: {fields['lost']}")
            if fields["version"] != _VERSION:
                raise NotExact(f"The record is kept in form {fields['version']}, which a newer version can replay")
            return self._record(fields)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError, AttributeError) as error:
            raise NotExact(f"What the letter keeps of the record cannot be read ({type(error).__name__})") from error

    def _record(self, content: Mapping[str, Any]) -> SourceRecord:
        reading = Reading(content["schemas"])
        return SourceRecord(
            json.loads(self.header("source.partition")),
            json.loads(self.header("source.offset")),
            self.header("topic"),
            _whole(reading, content["value"], self.value),
            _whole(reading, content["key"], self.key),
            [(name, reading.value(each)) for name, each in content["headers"]],
            content["timestamp"],
            content["partition"],
            reading.schema(content["key_schema"]),
            reading.schema(content["value_schema"]),
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _whole(reading: Reading, content: object, own: bytes | None) -> object:
    match content:
        case {"own": "bytes"}:
            return own
        case {"own": "text"}:
            return _text(own or b"")
    return reading.value(content)


def text_of(headers: Headers, name: str) -> str:
    """Return the last header of that name as text; "" if there is none."""
    for each, value in reversed(headers):
        if each == name:
            return (value or b"").decode("utf-8", "replace")
    return ""


def parse_replayed_offset(headers: Headers) -> int | None:
    """Return the offset of the dead letter that a mark refers to; None if the record is not a mark."""
    text = text_of(headers, REPLAYED)
    return int(text) if text.isascii() and text.isdigit() else None


def mark(topic: str, place: Place, connector: str, details: Mapping[str, str]) -> Record:
    """Return what to produce to record that a dead letter was replayed. details: by whom, and the result.

    It has its own key, so that a compacted topic accepts and keeps it.
    """
    partition, offset = place
    value = json.dumps({"replayed": {"partition": partition, "offset": offset}, **details}, ensure_ascii=False)
    headers = [(REPLAYED, str(offset).encode()), (CONNECTOR, connector.encode())]
    return topic, value.encode(), f"replayed-{partition}-{offset}".encode(), partition, 0, headers


def as_bytes(value: object) -> bytes | None:
    """Serialise a part of a record that may have no converter: bytes and strings as they are, anything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, SchemaAndValue):
        return as_bytes(value.value)
    return _utf8(value_text(value) if isinstance(value, Struct) else as_json(value))


def _utf8(text: str) -> bytes:
    """Half a surrogate pair stands for a raw byte, or is not valid text. The dead letter is written in either case."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def as_json(value: object) -> str:
    """Return compact JSON; what JSON cannot represent is written as Python's `repr`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that JSON does not have, cycles
        return repr(value)
