"""Previews a configuration that does not run: polls the first records in the plugin process, and writes nothing.

It is limited by number, bytes and time; a plugin that ignores the limits is killed at its host's deadline. Neither
`commit` nor `commit_record` is called, so the source sees no record as taken.
"""

import itertools
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ringfence.connectors.api import (
    ConnectorError,
    Endpoint,
    OffsetRecord,
    RecordBatch,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TransactionContext,
)
from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.config_providers import ResolvedConfig
from ringfence.connectors.plugins import PluginInfo
from ringfence.connectors.sdk.delivery import transaction_boundary, with_boundary
from ringfence.engine.plugins import instances
from ringfence.engine.plugins.instances import DetachedContext, InstanceContext, Offsets, SnapshotReader, check_shape
from ringfence.engine.plugins.record_display import size_of
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.engine.plugins.transform_trial import TransformationChain
from ringfence.fencing.task.transaction_context import RequestedEndings

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
    connector.context = InstanceContext(reader, trial=True)
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
