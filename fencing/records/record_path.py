"""The path of a batch from the plugin to the producer's queue: transform, convert, produce. The hot path.

It has two halves. `prepare` transforms and converts; this needs no transaction, so it can run while the last one
commits. `send` only produces. Offsets are collected, not produced: the newest one of each source partition goes into
the transaction last.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

from ringfence.connectors.api import ColumnBatch, OffsetRecord, RecordBatch, SourceRecord
from ringfence.connectors.api.errors import ConnectorError
from ringfence.connectors.api.records import (
    SERIALIZED,
    UNREADABLE,
    EncodedBatches,
    MixedBatch,
    SerializedRecords,
    UnreadableRecord,
)
from ringfence.connectors.columns import Column, alike, column_of
from ringfence.fencing.offsets.source_offsets import Offset, Partition
from ringfence.fencing.records.error_handling import Convert, RecordErrors
from ringfence.fencing.records.prepared_batch import AdmittedRecord, GatheredOffsets, PreparedBatch
from ringfence.fencing.records.topic_name_check import TopicCheck
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.fencing.transactions.record_columns import Record, RecordColumns, total_bytes

_OPEN: Final = TopicAccess()
_NOT_SERIALIZED: Final = (
    "The task returned SerializedRecords although a transform changes the records: check that context.converters is "
    "not None before you return one"
)


_Details = tuple[list[bytes | None], list[list[tuple[str, bytes | None]] | None]]
ProduceColumns = Callable[[RecordColumns], None]

_FEW = 4
"""For fewer records, columns are not faster."""


class RecordPath:
    """Prepares and sends batches."""

    def __init__(
        self,
        convert: Convert,
        offsets_topic: str = "",
        *,
        errors: RecordErrors | None = None,
        ensure: Callable[[str], None] | None = None,
        access: Callable[[], TopicAccess] = lambda: _OPEN,
    ) -> None:
        """offsets_topic: the topic of this task's offsets, which no record may go to. errors: handles a record that
        fails; None: the error is raised. ensure(topic): called before the first record of a batch goes to the topic.
        access: which topics are allowed; called for each batch, and returns another object if that has changed.
        """
        self._convert = convert
        self._errors = errors
        self._ensure = ensure
        self._check = TopicCheck(offsets_topic, access)
        self.bytes = 0
        self.keeps_rows = False
        """Whether prepared batches say where each record stands in its batch."""

    def dead_letter(self, record: SourceRecord, by: str, error: Exception) -> Record:
        """Return the dead letter of a record that is given up untried. Raises `error` if there is no dead
        letter topic.
        """
        if self._errors is None or self._errors.dead_letters is None:
            raise error
        self._check.check(self._errors.dead_letters)
        return self._errors.letter_of(record, by, error)

    def prepare(self, batch: Sequence[SourceRecord] | RecordBatch) -> PreparedBatch:
        """Transform and convert a batch. Raises what transforms and converters raise."""
        if isinstance(batch, RecordBatch):
            return self._prepare_raw(batch)
        return self._prepare_records(batch)

    def check_again(self, topics: Iterable[str]) -> None:
        """Raise `ConnectorError` if an uncommitted record went to a topic that is no longer allowed."""
        self._check.check_again(topics)

    def prepare_topic(self, topic: str) -> None:
        """Create the topic if the rules say so. Raises `ConnectorError` if the connector may not write to it."""
        self._check.check(topic)
        if self._ensure is not None:
            self._ensure(topic)

    def _prepare_raw(self, batch: RecordBatch) -> PreparedBatch:
        if not self._convert.raw:
            raise ConnectorError(
                "The task returned a RecordBatch although a converter or a transform changes the bytes: "
                "look at context.raw_batches before you return one"
            )
        ready = PreparedBatch(batch, keeps_rows=self.keeps_rows)
        if isinstance(batch, MixedBatch):
            return self._prepare_mixed(batch, ready)
        self.prepare_topic(batch.topic)
        if len(batch):
            ready.offsets.append((batch.source_partition, batch.source_offset))
            ready.topics.add(batch.topic)
            partition = -1 if batch.partition is None else batch.partition
            ready.add_columns(batch.topic, batch.values, batch.keys, partition, batch.timestamps, batch.headers)
            ready.size = ready.columns[-1].value_bytes
        return ready

    def _prepare_mixed(self, batch: MixedBatch, ready: PreparedBatch) -> PreparedBatch:
        if len(batch):
            ready.topics |= {batch.topics} if isinstance(batch.topics, str) else set(batch.topics)
        for topic in ready.topics:
            self.prepare_topic(topic)
        ready.offsets += batch.offsets
        if isinstance(batch, EncodedBatches):
            ready.size = sum(each.size for each in batch.batches)
            ready.count = len(batch)
        else:
            ready.size = total_bytes(batch.values)
            _add_mixed(batch, ready)
        ready.skipped, ready.dead_letters = batch.skipped - batch.letters, batch.letters
        return ready

    def _prepare_records(self, batch: Sequence[SourceRecord]) -> PreparedBatch:
        ready = PreparedBatch(batch, keeps_rows=self.keeps_rows)
        to_values = self._convert.column
        if to_values is None:
            self._one_by_one(batch, ready)
            return ready
        for run in alike(batch):
            schema = run.schema if isinstance(run, ColumnBatch) else run[0].value_schema
            if schema is SERIALIZED:
                if isinstance(run[0], AdmittedRecord):
                    self._one_by_one(run, ready)
                else:
                    self._add_serialized(run, ready)
            elif len(run) < _FEW or schema is UNREADABLE or not self._by_column(run, ready, to_values):
                self._one_by_one(run, ready)
        return ready

    def _add_serialized(self, run: Sequence[SourceRecord], ready: PreparedBatch) -> None:
        if self._convert.converters is None:
            raise ConnectorError(_NOT_SERIALIZED)
        topic = run[0].topic
        self.prepare_topic(topic)
        ready.topics.add(topic)
        for each in run:
            assert isinstance(each, SerializedRecords)
            headers = [each.headers] * len(each.values) if each.headers else None
            ready.add_columns(topic, each.values, each.keys, headers=headers)
            ready.size += total_bytes(each.values)
        self._add_offsets(run, ready)

    def _by_column(
        self,
        run: Sequence[SourceRecord],
        ready: PreparedBatch,
        to_values: Callable[[Column], list[bytes | None] | None],
    ) -> bool:
        """Prepare all of these at once. False, with nothing prepared, if that is not possible."""
        column = column_of(run)
        if column is None:
            return False
        try:
            values = to_values(column)
            if values is None:
                return False
            details = self._details(run, column.topic)
        except Exception:  # noqa: BLE001 - one by one it is raised again, by the record that is to blame
            return False
        self.prepare_topic(column.topic)
        ready.topics.add(column.topic)
        self._add_column(run, column.topic, values, details, ready)
        ready.size += total_bytes(values)
        if isinstance(run, ColumnBatch):
            ready.offsets.append((run.source_partition, run.source_offset))
        else:
            self._add_offsets(run, ready)
        return True

    def _add_offsets(self, run: Sequence[SourceRecord], ready: PreparedBatch) -> None:
        partition = run[0].source_partition
        if all(record.source_partition is partition for record in run):
            ready.offsets.append((partition, run[-1].source_offset))
        else:
            ready.offsets += [(record.source_partition, record.source_offset) for record in run]

    def _details(self, run: Sequence[SourceRecord], topic: str) -> _Details | None:
        """Return the keys and the headers of the records; None if none has any."""
        to_key, to_headers = self._convert.key, self._convert.headers
        if isinstance(run, ColumnBatch):
            if run.keys is None and run.headers is None:
                return None
            run_keys, run_headers = run.keys or [None] * len(run), run.headers or [None] * len(run)
            return (
                [None if key is None else to_key(topic, key, None) for key in run_keys],
                [to_headers(topic, pairs) if pairs else None for pairs in run_headers],
            )
        if not any(record.key is not None or record.key_schema is not None or record.headers for record in run):
            return None
        keys = [
            None if record.key is None and record.key_schema is None else to_key(topic, record.key, record.key_schema)
            for record in run
        ]
        return keys, [to_headers(topic, record.headers) if record.headers else None for record in run]

    @staticmethod
    def _add_column(
        run: Sequence[SourceRecord],
        topic: str,
        values: list[bytes | None],
        details: _Details | None,
        ready: PreparedBatch,
    ) -> None:
        keys, headers = details or (None, None)
        has_headers = headers is not None and any(headers)
        if isinstance(run, ColumnBatch):
            partition = -1 if run.partition is None else run.partition
            ready.add_columns(topic, values, keys, partition, run.times(), headers if has_headers else None)
            return
        times = [record.timestamp or 0 for record in run]
        if all(record.partition is None for record in run):
            ready.add_columns(topic, values, keys, -1, times if any(times) else None, headers if has_headers else None)
            return
        for number, (record, value) in enumerate(zip(run, values, strict=True)):
            key, pairs = (None, None) if details is None else (details[0][number], details[1][number])
            ready.add(topic, value, key, -1 if record.partition is None else record.partition, times[number], pairs)

    def _one_by_one(self, batch: Sequence[SourceRecord], ready: PreparedBatch) -> None:  # noqa: C901 - the loop over records, without calls that could be spared
        convert, add, offsets = self._convert, ready.add, ready.offsets
        to_value, to_key = convert.value, convert.key
        transform = convert.record if convert.transforms else None
        size = 0
        partition: Partition | None = None
        offset: Offset | None = None
        last_topic = ""
        for record in batch:
            if record.source_partition is not partition:
                if partition is not None:
                    offsets.append((partition, offset))
                partition = record.source_partition
            offset = record.source_offset
            if record.__class__ is OffsetRecord:
                continue
            if record.value_schema is SERIALIZED:
                self._add_admitted(record, ready)
                continue
            if record.__class__ is UnreadableRecord:
                self._leave_out(record, ready)
                continue
            try:
                out = record if transform is None else transform(record)
                if out is None:
                    continue
                topic = out.topic
                if topic != last_topic:
                    self.prepare_topic(topic)
                    ready.topics.add(topic)
                    last_topic = topic
                value = to_value(topic, out.value, out.value_schema)
                key = None if out.key is None and out.key_schema is None else to_key(topic, out.key, out.key_schema)
                headers = convert.headers(topic, out.headers) if out.headers else None
            except Exception:
                if self._errors is None:
                    raise
                self._try_again(record, ready)
                continue
            if value is not None:
                size += len(value)
            to = -1 if out.partition is None else out.partition
            add(topic, value, key, to, out.timestamp or 0, headers)
        if partition is not None:
            offsets.append((partition, offset))
        ready.size += size

    @staticmethod
    def _add_admitted(record: SourceRecord, ready: PreparedBatch) -> None:
        if not isinstance(record, AdmittedRecord):
            raise ConnectorError(_NOT_SERIALIZED)
        own = record.ready
        for columns in own.columns:
            for each in columns.records():
                ready.add(*each)
        ready.topics |= own.topics
        ready.size += own.size
        ready.skipped += own.skipped
        ready.dead_letters += own.dead_letters

    def _leave_out(self, record: SourceRecord, ready: PreparedBatch) -> None:
        """Skip a row that the task could not read. Raises its error unless it is tolerated."""
        assert isinstance(record, UnreadableRecord)
        if self._errors is None:
            raise record.error
        letter = self._errors.skip_unreadable(record)
        self._add_tried(letter, ready, bad=True)

    def _try_again(self, record: SourceRecord, ready: PreparedBatch) -> None:
        """Prepare a failed record step by step. Raises an error that is not tolerated."""
        assert self._errors is not None
        before = self._errors.given_up
        tried = self._errors.produce_of(record, self.prepare_topic)
        self._add_tried(tried, ready, bad=self._errors.given_up > before)

    def _add_tried(self, record: Record | None, ready: PreparedBatch, *, bad: bool) -> None:
        """Add a record that was tried again. bad: it was given up, and this is its dead letter, None without one."""
        if record is None:
            ready.skipped += bad
            return
        topic, value, *_ = record
        ready.add(*record)
        if bad:
            ready.dead_letters += 1
            self._check.check(topic)
        else:
            ready.topics.add(topic)
        ready.size += len(value or b"")

    def send(self, ready: PreparedBatch, produce: ProduceColumns, offsets: GatheredOffsets) -> None:
        """Produce the batch, and collect its offsets."""
        for each in ready.columns:
            produce(each)
        self.note_sent(ready, offsets)

    def note_sent(self, ready: PreparedBatch, offsets: GatheredOffsets) -> None:
        """Collect the offsets of a batch whose records are sent, and count its bytes."""
        for partition, offset in ready.offsets:
            offsets.put(partition, offset)
        self.bytes += ready.size


def _add_mixed(batch: MixedBatch, ready: PreparedBatch) -> None:
    """Add the records, in runs for the same topic and partition."""
    count = len(batch.values)
    if not count:
        return
    if batch.partitions is None and (isinstance(batch.topics, str) or len(set(batch.topics)) == 1):
        ready.add_columns(batch.topic, batch.values, batch.keys, -1, batch.timestamps, batch.headers)
        return
    topics = [batch.topics] * count if isinstance(batch.topics, str) else batch.topics
    partitions = [-1] * count if batch.partitions is None else batch.partitions
    start = 0
    for (topic, partition), run in groupby(zip(topics, partitions, strict=True)):
        end = start + len(list(run))
        rows = RecordColumns(topic, partition, batch.values, batch.keys, batch.timestamps, batch.headers)
        ready.add_run(rows.part(slice(start, end)))
        start = end
