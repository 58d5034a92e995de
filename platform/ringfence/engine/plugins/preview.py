"""Previews a configuration that does not run: polls the first records in the plugin process, and writes nothing. Shows
a record's way through transforms and converters, step by step: those of Python, or Java's in its own process.

A preview is limited by number, bytes and time; a plugin that ignores the limits is killed at its host's deadline.
Neither `commit` nor `commit_record` is called, so the source sees no record as taken.

A trial of transforms uses no config providers: references stay unresolved, since a transform could cut a secret into
pieces and show them.
"""

import base64
import itertools
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from ringfence.connectors.api import (
    ConfigException,
    ConnectorError,
    Endpoint,
    OffsetRecord,
    RecordBatch,
    RetriableError,
    Schema,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TransactionContext,
    UnreadableRecord,
)
from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.config_providers import ResolvedConfig
from ringfence.connectors.converters import (
    ByteArrayConverter,
    Converter,
    JsonConverter,
    header_converter,
    key_converter,
    value_converter,
)
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.plugins import PluginInfo
from ringfence.connectors.sdk.delivery import transaction_boundary, with_boundary
from ringfence.connectors.transforms import Transform, build_transforms
from ringfence.connectors.transforms.registry import aliases
from ringfence.engine.plugins import instances
from ringfence.engine.plugins.errors import BadRequest
from ringfence.engine.plugins.instances import (
    DetachedContext,
    InstanceContext,
    Offsets,
    SnapshotReader,
    check_shape,
    reader_for,
)
from ringfence.engine.plugins.record_display import WithSchema, describe_output, describe_record, readable, size_of
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.fencing.task.transaction_context import RequestedEndings

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


logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.1
_EMPTY_POLLS = 2
"""After the first record, this many polls in a row without records mean that there are no more at the moment."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a preview. seconds: from the first poll."""

    records: int
    bytes: int
    seconds: float


def preview(
    plugin: PluginInfo,
    resolution: ResolvedConfig,
    chain: TransformationChain,
    offsets: Offsets,
    bounds: Bounds,
    scrubber: Scrubber,
) -> dict[str, object]:
    """Return `{"tasks", "records", "polls", "ended", "note", "took_ms"}`; ended: records, bytes, nothing or time.

    Only the first task is polled; `tasks` is the number that would run. Each record is the result of `Chain.walk`, with
    `source_partition` and `source_offset` (None inside a batch with one offset for all). Raises what the plugin raises.
    """
    began = time.monotonic()
    reader = SnapshotReader(offsets)
    connector = plugin.cls()
    connector.context = InstanceContext(reader_for(type(connector), offsets), trial=True)
    try:
        connector.start(with_boundary(connector, resolution.config))
        most, _ = instances.cut_tasks(resolution.config["name"], int(resolution.config.get(TASKS_MAX, "1")))
        configs = connector.task_configs(most)
        check_shape(resolution.config["name"], configs)
        result: dict[str, object] = {"tasks": len(configs), "records": [], "polls": 0, "ended": "nothing", "note": ""}
        if configs:
            config = {**with_boundary(connector, resolution.config), **configs[0]}
            transactions = RequestedEndings() if transaction_boundary(config) == "connector" else None
            context = PreviewContext(config, reader, chain.raw, transactions)
            result |= _first(type(connector).task_class()(), context, chain, bounds, scrubber)
    finally:
        _stop(connector)
    return {**result, "took_ms": int((time.monotonic() - began) * 1000)}


class PreviewContext(DetachedContext):
    """The context of a task in a preview. Nothing reaches Kafka."""

    def __init__(
        self, config: Mapping[str, str], reader: SnapshotReader, raw: bool, transactions: TransactionContext | None
    ) -> None:
        super().__init__(config, reader)
        self.raw_batches = raw
        self.transaction_context = transactions
        self.ends_at = float("inf")
        self._never = threading.Event()

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.ends_at

    def refusal_to_join(self, group: str) -> ConnectorError:
        """A member would take partitions, or records, away from running tasks."""
        return ConnectorError(
            f"This task reads as a member of {group}, and a preview joins no group. Look at the records of its topics "
            "instead."
        )

    def announce_endpoint(self, endpoint: Endpoint) -> None:
        raise ConnectorError("This task waits for incoming requests, but a preview receives none.")

    def request_task_reconfiguration(self) -> None:
        """Do nothing: the tasks of a preview are not reconfigured."""

    def wait(self, seconds: float) -> bool:
        self._never.wait(max(0.0, min(seconds, self.ends_at - time.monotonic())))
        return self.over


def _first(
    task: SourceTask, context: PreviewContext, chain: TransformationChain, bounds: Bounds, scrubber: Scrubber
) -> dict[str, object]:
    task.context = context
    try:
        task.start(context.config)
        context.ends_at = time.monotonic() + bounds.seconds
        return _Reading(task, context, bounds).read(chain, scrubber)
    finally:
        _stop(task)


class _Reading:
    """The polls of one preview."""

    def __init__(self, task: SourceTask, context: PreviewContext, bounds: Bounds) -> None:
        self._task = task
        self._context = context
        self._bounds = bounds
        self._polls = 0
        self._note = ""
        self._end_reason = "nothing"

    def read(self, chain: TransformationChain, scrubber: Scrubber) -> dict[str, object]:
        records: list[dict[str, object]] = []
        size = 0
        for record in self._records():
            report = chain.walk(record)
            partition, offset = scrubber.value(record.source_partition), scrubber.value(record.source_offset)
            records.append({"source_partition": partition, "source_offset": offset, **report})
            size += size_of(record)
            if len(records) >= self._bounds.records or size >= self._bounds.bytes:
                self._end_reason = "records" if len(records) >= self._bounds.records else "bytes"
                break
        note = scrubber.text(self._note)
        return {"records": records, "polls": self._polls, "ended": self._end_reason, "note": note}

    def _records(self) -> Iterator[SourceRecord]:
        any_records, empty = False, 0
        while not (any_records and empty >= _EMPTY_POLLS):
            if self._context.over:
                self._end_reason = "time"
                return
            batch = self._poll()
            empty = 0 if batch else empty + 1
            for record in itertools.islice(_single(batch), self._bounds.records):
                any_records = True
                yield record

    def _poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        self._polls += 1
        try:
            batch = self._task.poll()
        except RetriableError as error:
            self._note = f"The source requests a retry: {error}"
            self._context.wait(_AGAIN_SECONDS)
            return None
        if isinstance(batch, RecordBatch) and not self._context.raw_batches:
            raise ConnectorError("The task returned a RecordBatch although context.raw_batches is false.")
        return batch


def _single(batch: Sequence[SourceRecord] | RecordBatch | None) -> Iterable[SourceRecord]:
    """Yield the records of a batch. The offset of a `RecordBatch` belongs to its last record."""
    if not isinstance(batch, RecordBatch):
        yield from (record for record in batch or () if not isinstance(record, OffsetRecord))
        return
    if isinstance(batch, MixedBatch):
        yield from _of_mixed(batch)
        return
    last = len(batch) - 1
    for number, value in enumerate(batch.values):
        offset = batch.source_offset if number == last else None
        key = None if batch.keys is None else batch.keys[number]
        yield SourceRecord(batch.source_partition, offset, batch.topic, value, key, (), None, batch.partition)


def _of_mixed(batch: MixedBatch) -> Iterator[SourceRecord]:
    """Yield the records of a batch. Its newest offset belongs to its last record."""
    last = len(batch) - 1
    for number, value in enumerate(batch.values):
        yield SourceRecord(
            batch.source_partition,
            batch.source_offset if number == last else None,
            batch.topics if isinstance(batch.topics, str) else batch.topics[number],
            value,
            None if batch.keys is None else batch.keys[number],
            (batch.headers[number] or ()) if batch.headers else (),
            batch.timestamps[number] or None if batch.timestamps else None,
            batch.partitions[number] if batch.partitions and batch.partitions[number] >= 0 else None,
        )


def _stop(part: SourceConnector | SourceTask) -> None:
    try:
        part.stop()
    except Exception:
        logger.exception("Stopping %s after a preview failed", type(part).__name__)
