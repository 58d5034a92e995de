"""What a dead letter says, in Kafka's bytes: the failed record as it was, what is known of its failure, and a replay.

A letter is written by `fencing.records.errors` in the transaction of its source offset. Once replayed
(`fencing.dead_letters.replay`), a mark with its place stands behind it in the same partition: it cannot expire before
its letter.
"""

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.connectors.api import SchemaAndValue, SourceRecord, Struct
from ringfence.connectors.class_names import class_name
from ringfence.connectors.values.exact import Inexact, Reading, Writing
from ringfence.connectors.values.texts import text as value_text
from ringfence.fencing.ids import TaskId

PREFIX: Final = "__connect.errors."
RECORD: Final = PREFIX + "record"
"""The header that holds the record exactly, `record_text`."""
REPLAYED: Final = PREFIX + "replayed"
"""The header of a mark: the offset of the letter, in the mark's own partition, that was replayed."""
CONNECTOR: Final = PREFIX + "connector.name"

_LARGEST: Final = 400_000
"""Bytes of `RECORD`: beside the same value once more, that is well below what a broker takes by default."""
_VERSION: Final = 1

Headers = Sequence[tuple[str, bytes | None]]
Place = tuple[int, int]
"""Partition and offset of a letter."""


class NotExact(Exception):
    """The letter does not hold its record; the message says why, and what to do."""


def make_dead_letter(
    record: SourceRecord, task: TaskId, stage: str, by: str, error: Exception, redact: Callable[[str], str]
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """Key, value and headers: the record as the connector handed it over, and what is known of its failure.

    by: the class that failed. redact: takes secrets out of the error's message and stack trace.
    """
    key, value = as_bytes(record.key), as_bytes(record.value)
    texts = {
        "topic": record.topic,
        "connector.name": task.connector,
        "task.id": str(task.task),
        "stage": stage,
        "class.name": by,
        "exception.class.name": class_name(type(error)),
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
    """What cannot be told from the letter's own key and value, as JSON; `lost` in it says why it cannot be told."""
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
    """Bytes and strings stand in the letter itself already."""
    if own is not None and type(part) is bytes:
        return {"own": "bytes"}
    if own is not None and type(part) is str and _text(own) == part:
        return {"own": "text"}
    return writing.value(part)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as it stands in its topic."""

    place: Place
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def header(self, name: str) -> str:
        """What a header of ours says, "" where it is not there. The last one counts: a source record may have brought
        headers of that name along."""
        return text_of(self.headers, PREFIX + name)

    @property
    def connector(self) -> str:
        return self.header("connector.name")

    @property
    def size(self) -> int:
        parts = (self.key, self.value, *(value for _, value in self.headers))
        return sum(len(part) for part in parts if part is not None)

    def record(self) -> SourceRecord:
        """The record as the connector handed it over. Raises `NotExact`."""
        text = self.header("record")
        if not text:
            raise NotExact(
                "The letter does not hold the record exactly: an earlier version, or other software, wrote it"
            )
        try:
            shown = json.loads(text)
            if "lost" in shown:
                raise NotExact(f"The record could not be kept exactly: {shown['lost']}")
            if shown["version"] != _VERSION:
                raise NotExact(f"The record is kept in form {shown['version']}, which a newer version can replay")
            return self._record(shown)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError, AttributeError) as error:
            raise NotExact(f"What the letter keeps of the record cannot be read ({type(error).__name__})") from error

    def _record(self, shown: Mapping[str, Any]) -> SourceRecord:
        reading = Reading(shown["schemas"])
        return SourceRecord(
            json.loads(self.header("source.partition")),
            json.loads(self.header("source.offset")),
            self.header("topic"),
            _whole(reading, shown["value"], self.value),
            _whole(reading, shown["key"], self.key),
            [(name, reading.value(each)) for name, each in shown["headers"]],
            shown["timestamp"],
            shown["partition"],
            reading.schema(shown["key_schema"]),
            reading.schema(shown["value_schema"]),
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _whole(reading: Reading, shown: object, own: bytes | None) -> object:
    match shown:
        case {"own": "bytes"}:
            return own
        case {"own": "text"}:
            return _text(own or b"")
    return reading.value(shown)


def text_of(headers: Headers, name: str) -> str:
    """The last header of that name as text; "" where there is none."""
    for each, value in reversed(headers):
        if each == name:
            return (value or b"").decode("utf-8", "replace")
    return ""


def parse_replayed_offset(headers: Headers) -> int | None:
    """The offset of the letter that a mark is about; None for what is no mark."""
    text = text_of(headers, REPLAYED)
    return int(text) if text.isascii() and text.isdigit() else None


def mark(topic: str, place: Place, connector: str, told: Mapping[str, str]) -> tuple[object, ...]:
    """What to produce to say that a letter was replayed; told: by whom, and what came of it.

    It has a key of its own, so that a compacted topic takes it and keeps it.
    """
    partition, offset = place
    value = json.dumps({"replayed": {"partition": partition, "offset": offset}, **told}, ensure_ascii=False)
    headers = [(REPLAYED, str(offset).encode()), (CONNECTOR, connector.encode())]
    return (topic, value.encode(), f"replayed-{partition}-{offset}".encode(), partition, None, None, 0, headers)


def as_bytes(value: object) -> bytes | None:
    """A part of a record that may not be convertible: bytes and strings as they are, anything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, SchemaAndValue):
        return as_bytes(value.value)
    return _utf8(value_text(value) if isinstance(value, Struct) else as_json(value))


def _utf8(text: str) -> bytes:
    """Half a surrogate pair stands for a raw byte, or is not valid text: the dead letter is written all the same."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def as_json(value: object) -> str:
    """Compact JSON; what JSON cannot hold as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that JSON does not have, cycles
        return repr(value)
