"""Records that are sent without transactions, and the source offsets that may be written for them: those before which
no record is missing.

Records are sent in runs: consecutive records of one source partition. A run is done when the broker has acknowledged
all of its records. The runs of a source partition count in order: one that is not done holds back the offsets of all
later ones, even if those are acknowledged. Other source partitions do not wait for it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial

from ringfence.connectors.api import RecordBatch, SourceRecord
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.idempotent_producer import IdempotentProducer
from ringfence.fencing.offsets.source_offsets import Offset, Partition, canonical
from ringfence.fencing.records.prepared_batch import GatheredOffsets
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.task.at_least_once.offset_flush import OffsetFlush
from ringfence.fencing.task.counters import Counters
from ringfence.fencing.transactions.record_columns import RecordColumns


def runs_of(batch: Sequence[SourceRecord] | RecordBatch) -> Iterator[Sequence[SourceRecord] | RecordBatch]:
    """Return the batch, split where the source partition changes."""
    if isinstance(batch, RecordBatch):
        if batch:
            yield batch
        return
    start = 0
    for position in range(1, len(batch)):
        if batch[position].source_partition != batch[start].source_partition:
            yield batch[start:position]
            start = position
    if len(batch):
        yield batch[start:]


Move = tuple[Partition, Offset | None]
"""A source partition, and its new offset."""


class SubmittedBatch:
    """Records that are being sent, and the source offset after the last of them."""

    __slots__ = ("_book", "offset", "partition", "records", "topics", "waiting")

    def __init__(
        self,
        book: "SubmittedRecords",
        partition: Partition,
        offset: Offset | None,
        waiting: int,
        records: Sequence[SourceRecord],
    ) -> None:
        self._book = book
        self.partition = partition
        self.offset = offset
        self.waiting = waiting
        self.records = records
        self.topics: Set[str] = frozenset()

    def on_delivery(self, failure: FencingError | None) -> None:
        """Take the broker's answer for one record. After a failure, the run is never done."""
        if failure is None:
            self.waiting -= 1
            self._book.waiting -= 1
        else:
            self._book.failure = self._book.failure or failure


class SubmittedRecords:
    """The runs of one task, from `begin` to the offsets that may be written. Pure."""

    def __init__(self) -> None:
        self._runs: dict[str, deque[SubmittedBatch]] = {}
        self._newest: dict[str, Move] = {}
        self.waiting = 0
        """The number of records that are not acknowledged."""
        self.failure: FencingError | None = None
        """Why a record will never be acknowledged; None if none has failed."""

    def begin(
        self, partition: Partition, offset: Offset | None, waiting: int, records: Sequence[SourceRecord] = ()
    ) -> SubmittedBatch:
        """Begin the next run, in the plugin's order.

        waiting: how many acknowledgements are due, 0 if transforms dropped all; records: for the plugin.
        """
        run = SubmittedBatch(self, partition, offset, waiting, records)
        self._runs.setdefault(canonical(partition), deque()).append(run)
        self.waiting += waiting
        return run

    def advance(self) -> list[SubmittedBatch]:
        """Return the runs that are done, and before which all are; each is returned once."""
        done = []
        for name, runs in list(self._runs.items()):
            while runs and not runs[0].waiting:
                run = runs.popleft()
                self._newest[name] = (run.partition, run.offset)
                done.append(run)
            if not runs:
                del self._runs[name]
        return done

    def take(self) -> list[Move]:
        """Return the newest offset of each source partition that has advanced since the last call."""
        moves = list(self._newest.values())
        self._newest.clear()
        return moves

    def put_back(self, offsets: Sequence[Move]) -> None:
        """Make offsets that could not be written pending again, unless there are newer ones."""
        for partition, offset in offsets:
            self._newest.setdefault(canonical(partition), (partition, offset))


def _for_all(book: SubmittedRecords, runs: Sequence[SubmittedBatch]) -> Callable[[FencingError | None], None]:
    if len(runs) == 1:
        return runs[0].on_delivery

    def on_delivery(failure: FencingError | None) -> None:
        book.failure = book.failure or failure
        for run in runs:
            run.on_delivery(failure)

    return on_delivery


def _produce_columns(produce: Callable[..., None], columns: RecordColumns) -> None:
    for record in columns.records():
        produce(*record)


class Deliveries:
    """The deliveries of one run. All methods are called on the task's thread."""

    def __init__(
        self,
        producer: IdempotentProducer,
        flush: OffsetFlush,
        path: RecordPath,
        counters: Counters,
        clock: Clock,
        *,
        keep_records: bool,
        stopping: Callable[[], None],
    ) -> None:
        """keep_records: the plugin overrides `commit_record`. stopping: raises if the attempt must end."""
        self._producer = producer
        self._flush = flush
        self._path = path
        self._counters = counters
        self._clock = clock
        self._keep = keep_records
        self._stopping = stopping
        self._book = SubmittedRecords()
        self._unused_offsets = GatheredOffsets()  # the path requires one; here the submitted records keep the offsets
        self.topics: frozenset[str] = frozenset()
        """The topics that acknowledged records went to."""
        self._flushed_at = clock.monotonic()
        self._sent_counts = counters.committed

    def send(self, batch: Sequence[SourceRecord] | RecordBatch) -> None:
        """Transform, convert and produce a batch."""
        for part in runs_of(batch):
            ready = self._path.prepare(part)
            raw = isinstance(part, RecordBatch)
            # Serialised records may be of several source partitions: none of them is done before the whole batch is.
            offsets = ready.offsets if raw else ready.offsets[-1:]
            records = part if self._keep and not isinstance(part, RecordBatch) else ()
            due = ready.count
            runs = [self._book.begin(partition, offset, due, records) for partition, offset in offsets]
            for run in runs:
                run.topics = ready.topics
            before = self._path.bytes
            with kafka_errors("producing"):
                produce = self._producer.reporting(_for_all(self._book, runs), self._check_while_full)
                self._path.send(ready, partial(_produce_columns, produce), self._unused_offsets)
            self._unused_offsets.take()
            self._counters.records += ready.count
            self._sent_counts = self._sent_counts.plus(ready.counts)
            self._counters.bytes += self._path.bytes - before
            self._counters.measures.count_left_out(part, self._clock)
        self._count()

    def _count_acknowledged(self) -> None:
        self._counters.open_records = waiting = self._book.waiting
        self._counters.committed = self._sent_counts._replace(records=max(0, self._sent_counts.records - waiting))

    def _check_while_full(self) -> None:
        self.check()
        self._stopping()

    def _count(self) -> None:
        self._count_acknowledged()
        self._counters.measures.active_records.add(self._book.waiting, self._clock.monotonic())

    def check(self) -> None:
        """Raise if a record will never arrive."""
        failure = self._book.failure
        if failure is not None:
            raise Fatal(
                f"{failure}. The task stops here, and no source offset from this record on is written, so that it is "
                "read again: fix the cause, then restart the task",
                failure.code,
            )

    def take_acknowledged(self, seconds: float = 0.0) -> list[SourceRecord]:
        """Serve delivery reports. Returns the records acknowledged since the last call, in order, if they are kept."""
        deadline = Deadline.after(seconds, self._clock)
        while True:
            self._producer.serve(min(0.05, max(0.0, deadline.remaining)))
            if not self._book.waiting or self._book.failure is not None or deadline.expired:
                break
        done = self._book.advance()
        self.topics = self.topics.union(*(run.topics for run in done))
        records = [record for run in done for record in run.records]
        self._count_acknowledged()
        return records

    @property
    def complete(self) -> bool:
        """Whether all records are acknowledged, and every offset is written or being written."""
        return not self._book.waiting and not self._flush.under_way

    def flush_if_due(self, interval_s: float) -> bool:
        """Write the offsets if `interval_s` has passed since the last time. Returns whether a flush has succeeded.

        With nothing to write, it succeeds at once, as in Kafka Connect.
        """
        if self._flush.under_way:
            return self._settle(0.0)
        if self._clock.monotonic() - self._flushed_at < interval_s:
            return False
        return self._begin()

    def _begin(self) -> bool:
        self._flushed_at = self._clock.monotonic()
        offsets = self._book.take()
        if not offsets:
            return True
        self._flush.begin(offsets)
        return self._settle(0.0)

    def _settle(self, seconds: float) -> bool:
        result = self._flush.settle(seconds)
        if result is None:
            return False
        complete, offsets = result
        if complete:
            self._counters.last_commit = self._clock.wall()
        else:
            self._book.put_back(offsets)
        return complete

    def flush_all(self, seconds: float) -> bool:
        """Write every offset that may be written, and wait for at most `seconds`. Returns whether all succeeded."""
        deadline = Deadline.after(seconds, self._clock)
        if self._flush.under_way:
            self._settle(max(0.0, deadline.remaining))
        if self._flush.under_way:
            return False
        return self._begin() or self._settle(max(0.0, deadline.remaining))

    def due_in(self, interval_s: float) -> float:
        """Return the seconds until the next flush is due: the plugin may wait for its source that long."""
        if self._book.waiting or self._flush.under_way:
            return 0.1
        return self._flushed_at + interval_s - self._clock.monotonic()
