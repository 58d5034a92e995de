"""The path of a batch from the plugin to the producer's queue: transform, convert, produce. The hot path.

It has two halves. `prepare` transforms and converts; this needs no transaction, so it can run while the last one
commits. `send` only produces. Offsets are collected, not produced: the newest one of each source partition goes into
the transaction last.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Final

from ringfence.connectors.api import OffsetRecord, RecordBatch, SourceRecord, StructBatch
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
from ringfence.fencing.kafka.producer_interface import Produce
from ringfence.fencing.offsets.source_offsets import Offset, Partition
from ringfence.fencing.records.conversion import Convert
from ringfence.fencing.records.error_handling import RecordErrors
from ringfence.fencing.records.prepared_batch import AdmittedRecord, GatheredOffsets, PreparedBatch
from ringfence.fencing.records.produce_calls import make_call, send_calls, send_raw
from ringfence.fencing.records.send_window import SendWindow
from ringfence.fencing.records.topic_name_check import TopicCheck
from ringfence.fencing.records.writable_topics import TopicAccess

_OPEN: Final = TopicAccess()
_NOT_SERIALIZED: Final = (
    "The task returned SerializedRecords although a transform changes the records: check that context.converters is "
    "not None before you return one"
)


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

    def dead_letter(self, record: SourceRecord, by: str, error: Exception) -> tuple[object, ...]:
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
        ready = PreparedBatch(batch)
        if isinstance(batch, MixedBatch):
            return self._prepare_mixed(batch, ready)
        self.prepare_topic(batch.topic)
        if len(batch):
            ready.offsets.append((batch.source_partition, batch.source_offset))
            ready.size = sum(map(len, filter(None, batch.values)))
            ready.topics.add(batch.topic)
        return ready

    def _prepare_mixed(self, batch: MixedBatch, ready: PreparedBatch) -> PreparedBatch:
        if len(batch):
            ready.topics |= {batch.topics} if isinstance(batch.topics, str) else set(batch.topics)
        for topic in ready.topics:
            self.prepare_topic(topic)
        ready.offsets += batch.offsets
        if isinstance(batch, EncodedBatches):
            ready.size = sum(each.size for each in batch.batches)
        else:
            ready.size = sum(map(len, filter(None, batch.values)))
        ready.skipped, ready.dead_letters = batch.skipped - batch.letters, batch.letters
        return ready

    def _prepare_records(self, batch: Sequence[SourceRecord]) -> PreparedBatch:
        ready = PreparedBatch(batch)
        to_values = self._convert.column
        if to_values is None:
            self._one_by_one(batch, ready)
            return ready
        for run in alike(batch):
            schema = None if run.__class__ is StructBatch else run[0].value_schema
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
        same, no, any_partition, now = repeat(topic), repeat(None), repeat(-1), repeat(0)
        for each in run:
            assert isinstance(each, SerializedRecords)
            if each.headers:
                headers = repeat(each.headers)
                calls = zip(same, each.values, each.keys, any_partition, no, no, now, headers, strict=False)
                ready.calls.extend(calls)
            else:
                ready.calls.extend(zip(same, each.values, each.keys, strict=False))
            ready.size += sum(map(len, filter(None, each.values)))
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
            calls = self._calls(run, column.topic, values)
        except Exception:  # noqa: BLE001 - one by one it is raised again, by the record that is to blame
            return False
        self.prepare_topic(column.topic)
        ready.topics.add(column.topic)
        ready.calls += calls
        ready.size += sum(map(len, filter(None, values)))
        if isinstance(run, StructBatch):
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

    def _calls(self, run: Sequence[SourceRecord], topic: str, values: list[bytes | None]) -> list[tuple[object, ...]]:
        if isinstance(run, StructBatch):
            return list(zip(repeat(topic), values, strict=False))
        for record in run:
            if record.key is not None or record.key_schema is not None:
                break
            if record.partition is not None or record.headers:
                break
        else:
            times, same = [record.timestamp or 0 for record in run], repeat(topic)
            if not any(times):
                return list(zip(same, values, strict=False))
            no = repeat(None)
            return list(zip(same, values, no, repeat(-1), no, no, times, strict=False))
        to_key, to_headers, calls = self._convert.key, self._convert.headers, []
        for record, value in zip(run, values, strict=True):
            no_key = record.key is None and record.key_schema is None
            key = None if no_key else to_key(topic, record.key, record.key_schema)
            headers = to_headers(topic, record.headers) if record.headers else None
            calls.append(make_call(topic, value, key, record.partition, record.timestamp, headers))
        return calls

    def _one_by_one(self, batch: Sequence[SourceRecord], ready: PreparedBatch) -> None:  # noqa: C901 - the loop over records, without calls that could be spared
        convert, add, offsets = self._convert, ready.calls.append, ready.offsets
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
            add(make_call(topic, value, key, out.partition, out.timestamp, headers))
        if partition is not None:
            offsets.append((partition, offset))
        ready.size += size

    @staticmethod
    def _add_admitted(record: SourceRecord, ready: PreparedBatch) -> None:
        if not isinstance(record, AdmittedRecord):
            raise ConnectorError(_NOT_SERIALIZED)
        own = record.ready
        if record.most and ready.together + record.bytes > record.most:
            ready.pauses.append(len(ready.calls))
            ready.together = 0
        ready.together += record.bytes
        ready.calls += own.calls
        ready.topics |= own.topics
        ready.size += own.size
        ready.skipped += own.skipped
        ready.dead_letters += own.dead_letters

    def _leave_out(self, record: SourceRecord, ready: PreparedBatch) -> None:
        """Skip a row that the task could not read. Raises its error unless it is tolerated."""
        assert isinstance(record, UnreadableRecord)
        if self._errors is None:
            raise record.error
        call = self._errors.skip_unreadable(record)
        if call is None:
            ready.skipped += 1
            return
        self._add_call(call, ready, is_letter=True)

    def _try_again(self, record: SourceRecord, ready: PreparedBatch) -> None:
        """Prepare a failed record step by step. Raises an error that is not tolerated."""
        assert self._errors is not None
        before = self._errors.given_up
        call = self._errors.produce_of(record, self.prepare_topic)
        bad = self._errors.given_up > before
        if call is None:
            ready.skipped += bad
            return
        self._add_call(call, ready, is_letter=bad)

    def _add_call(self, call: tuple[object, ...], ready: PreparedBatch, *, is_letter: bool) -> None:
        ready.calls.append(call)
        if is_letter:
            ready.dead_letters += 1
            self._check.check(str(call[0]))
        else:
            ready.topics.add(str(call[0]))
        if isinstance(call[1], bytes):
            ready.size += len(call[1])

    def send(
        self,
        ready: PreparedBatch,
        produce: Produce,
        full: Callable[[], None],
        offsets: GatheredOffsets,
        window: SendWindow | None = None,
    ) -> int:
        """Produce the batch. Returns the number of records produced (transforms dropped the rest).

        `full()` is called when the producer's queue is full. It makes room, or raises. window: waits for deliveries.
        """
        if isinstance(ready.batch, RecordBatch):
            count = send_raw(ready.batch, produce, full, window, ready.size)
        else:
            count = self._send_calls(ready, produce, full, window)
        self.note_sent(ready, offsets)
        return count

    @staticmethod
    def _send_calls(ready: PreparedBatch, produce: Produce, full: Callable[[], None], window: SendWindow | None) -> int:
        if not ready.pauses or window is None:
            return send_calls(ready.calls, produce, full, window, ready.size)
        count = start = 0
        for end in (*ready.pauses, len(ready.calls)):
            window.empty()
            count += send_calls(ready.calls[start:end], produce, full)
            start = end
        return count

    def note_sent(self, ready: PreparedBatch, offsets: GatheredOffsets) -> None:
        """Collect the offsets of a batch whose records are sent, and count its bytes."""
        for partition, offset in ready.offsets:
            offsets.put(partition, offset)
        self.bytes += ready.size
