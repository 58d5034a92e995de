"""One run of a source task without transactions: worker modes `disabled` and `preparing` (KIP-618).

At least once, as in Kafka Connect without KIP-618: records are produced as they come, and every
`offset.flush.interval.ms` the newest source offset up to which all records are acknowledged is written. After a crash,
what came after it is read again. Nothing is skipped: a record that cannot be delivered fails the task, and no offset
from it on is written.

Not guaranteed in these modes: an attempt that cannot reach the config topic cannot be fenced, because it has no
transactional id. It may keep producing beside its successor, and may overwrite newer source offsets with its own. An
attempt that learns that it is superseded sends nothing more, not even a batch that its plugin has just returned.

Records are sent in runs: consecutive records of one source partition. A run is done when the broker has acknowledged
all of its records. The runs of a source partition count in order: one that is not done holds back the offsets of all
later ones, even if those are acknowledged. Other source partitions do not wait for it.

Source offsets are written in the background, one flush at a time (`offset.flush.*`). Only offsets of acknowledged
records are written, so a late or lost offset only costs duplicates after a restart.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial

from ringfence.connectors.api import RecordBatch, SourceRecord, SourceTask
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.plain_producers import IdempotentProducer, QueueFull
from ringfence.fencing.metrics import Measures
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffsets, canonical, encode_value
from ringfence.fencing.offsets.stores import OffsetsCopy
from ringfence.fencing.records.prepared_batch import GatheredOffsets
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.task.attempt_report import Counters
from ringfence.fencing.task.clients import fencing_connection, idempotent_producer
from ringfence.fencing.task.config_view import DesiredState
from ringfence.fencing.task.context import TaskContext
from ringfence.fencing.task.poll_loop import Polling
from ringfence.fencing.task.runtime import Superseded, TaskRuntime
from ringfence.fencing.task.start_progress import READING_OFFSETS
from ringfence.fencing.task.task_offsets import TaskOffsets
from ringfence.fencing.task.task_spec import overrides
from ringfence.fencing.topics.status import State
from ringfence.fencing.transactions.record_columns import RecordColumns

Offsets = Sequence[tuple[Partition, Offset | None]]


class _Flush:
    """A flush in progress."""

    def __init__(self, offsets: Offsets, started_at: float) -> None:
        self.offsets = offsets
        self.started_at = started_at
        self.waiting = len(offsets)
        self.failure: FencingError | None = None
        self.overdue = False

    def on_delivery(self, failure: FencingError | None) -> None:
        self.waiting -= 1
        self.failure = self.failure or failure


class OffsetFlush:
    """Writes offsets with its own producer. All methods are called on the task's thread."""

    def __init__(
        self,
        producer: IdempotentProducer,
        topic: str,
        offsets: SourceOffsets,
        measures: Measures,
        clock: Clock,
        *,
        timeout_s: float,
        copy: OffsetsCopy | None = None,
    ) -> None:
        """timeout_s: `offset.flush.timeout.ms`; a flush that takes longer counts as failed, and is still waited for.

        topic: the effective one; copy: to the worker's topic if that is another. `close` closes both clients.
        """
        self._producer = producer
        self._topic = topic
        self._offsets = offsets
        self._measures = measures
        self._clock = clock
        self._timeout_s = timeout_s
        self._copy = copy
        self._flush: _Flush | None = None

    @property
    def under_way(self) -> bool:
        """Whether a flush has begun and is not settled."""
        return self._flush is not None

    def begin(self, offsets: Offsets) -> None:
        """Pass the offsets to the producer. Settle the last flush first."""
        assert self._flush is None, "settle the last flush before the next"
        if self._copy is not None:
            self._copy.before(offsets)
        flush = self._flush = _Flush(offsets, self._clock.monotonic())
        room = Deadline.after(self._timeout_s, self._clock)

        def check() -> None:
            if room.expired:
                raise QueueFull("the producer's queue is full")

        produce = self._producer.reporting(flush.on_delivery, check)
        for partition, offset in offsets:
            try:
                with kafka_errors("writing source offsets"):
                    produce(self._topic, encode_value(offset), self._offsets.key_of(partition))
            except QueueFull as error:
                flush.on_delivery(error)

    def settle(self, seconds: float = 0.0) -> tuple[bool, Offsets] | None:
        """Return once whether the offsets were written, and the offsets; None if no flush ends within `seconds`.

        The caller writes failed offsets again with the next flush; the task need not stop.
        """
        flush = self._flush
        deadline = Deadline.after(seconds, self._clock)
        while flush is not None:
            self._producer.serve(min(0.05, max(0.0, deadline.remaining)))
            if flush.waiting == 0:
                break
            late = self._clock.monotonic() - flush.started_at >= self._timeout_s
            if late and not flush.overdue:
                flush.overdue = True
                self._measures.flush(flush.started_at, False, self._clock)
                log.warning(
                    "Source offsets were not written within offset.flush.timeout.ms (%g s); they still are under way. "
                    "Nothing is lost: what they cover would be read again after a restart",
                    self._timeout_s,
                )
            if deadline.expired:
                return None
        if flush is None:
            return None
        self._flush = None
        if not flush.overdue:
            self._measures.flush(flush.started_at, flush.failure is None, self._clock)
        if flush.failure is not None:
            log.warning("Source offsets could not be written, and are written again later: %s", flush.failure)
        elif self._copy is not None:
            self._copy.after(flush.offsets)
        return flush.failure is None, flush.offsets

    def close(self) -> None:
        """Close the clients, without waiting for what is not written yet."""
        self._producer.close()
        if self._copy is not None:
            self._copy.close()


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


log = logging.getLogger(__name__)


class AtLeastOnceRun:
    """Runs from the source offsets to the end of the attempt, or until an error is raised.

    The errors are those of a run with transactions: `Fatal` fails the task; `Retriable` and `Fenced` (librdkafka gave
    up its producer) start it again from what is in Kafka.
    """

    def __init__(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime
        self._spec = runtime.spec
        self._view = runtime.view
        self._report = runtime.report
        self._clock = runtime.clock
        settings = runtime.spec.worker_settings
        self._interval_s = int(settings.get("offset.flush.interval.ms", "60000")) / 1000
        self._timeout_s = int(settings.get("offset.flush.timeout.ms", "5000")) / 1000

    def run(self) -> bool:
        """Return True when the attempt must end."""
        runtime = self._runtime
        if runtime.refresh():
            return True
        self._fence_before()
        self._report.stage(READING_OFFSETS)
        task_offsets = TaskOffsets(self._spec, self._clock, transactional=False)
        task_offsets.prepare()
        offsets = task_offsets.read(runtime.is_superseded, runtime.report_reading)
        self._view.check_topics(runtime.deadline())
        plugin = runtime.plugin.make()
        copy = task_offsets.copy(offsets, lambda text: self._report.stage("copying offsets", text))
        path = runtime.record_path(task_offsets.topic)
        producer = idempotent_producer(self._spec)
        # The worker's topic with the worker's own rights, as in Kafka Connect: the connector's may not suffice.
        writer = IdempotentProducer(self._spec.connection) if copy is None else idempotent_producer(self._spec)
        flush = OffsetFlush(
            writer,
            task_offsets.topic,
            offsets,
            runtime.counters.measures,
            self._clock,
            timeout_s=self._timeout_s,
            copy=copy,
        )
        deliveries = Deliveries(
            producer,
            flush,
            path,
            runtime.counters,
            self._clock,
            keep_records=overrides(plugin, "commit_record"),
            stopping=runtime.require_current,
        )
        try:
            # There are no transactions to define.
            plugin.context = TaskContext(
                runtime,
                offsets,
                lambda: deliveries.due_in(self._interval_s),
                None,
                read_offsets=lambda: task_offsets.read(runtime.is_superseded),
            )
            self._report.stage("starting the plugin")
            plugin.start(runtime.plugin.config)
            self._report.running(State.RUNNING)
            self._work(plugin, deliveries)
            return True
        finally:
            producer.close()
            flush.close()
            runtime.counters.open_records = 0
            plugin.stop()

    def _fence_before(self) -> None:
        """Fence an earlier attempt that may have run on an `enabled` worker.

        If the principal may not fence, the task still runs: without transactional ids, it needs no such permission.
        """
        if self._spec.placement.attempt <= 1:
            return
        self._report.stage("fencing the attempt before")
        try:
            with Fencer(fencing_connection(self._spec)) as fencer:
                fencer.fence([self._spec.transactional_id], Deadline.after(30, self._clock))
        except Fatal as error:
            log.warning("An attempt of %s in a transaction could not be fenced: %s", self._spec.task, error)

    def _work(self, plugin: SourceTask, deliveries: Deliveries) -> None:
        try:
            self._poll_loop(plugin, deliveries)
        except Superseded:
            self._finish(plugin, deliveries)
        except Exception:
            # Acknowledged records need not be read again after the failure.
            try:
                self._finish(plugin, deliveries)
            except FencingError as error:
                log.info("%s", error)
            raise

    def _poll_loop(self, plugin: SourceTask, deliveries: Deliveries) -> None:
        polling = Polling(self._runtime, plugin)
        while True:
            verdict = self._view.verdict
            if verdict is not DesiredState.RUN:
                self._finish(plugin, deliveries)
                deliveries.check()
                if verdict not in (DesiredState.PAUSE, DesiredState.WAIT):
                    return
                polling.sit_out(verdict)
                continue
            batch = polling.poll()
            if batch:
                self._runtime.require_current()  # nothing fences it: a batch that comes too late must not be sent
                deliveries.send(batch)
            self._report_acknowledged(plugin, deliveries, 0.0)
            deliveries.check()
            if deliveries.flush_if_due(self._interval_s):
                plugin.commit()

    def _finish(self, plugin: SourceTask, deliveries: Deliveries) -> None:
        """Wait at most `offset.flush.timeout.ms` for what is being sent, then write the offsets that may be written."""
        self._report_acknowledged(plugin, deliveries, self._timeout_s)
        if deliveries.flush_all(self._timeout_s):
            plugin.commit()

    def _report_acknowledged(self, plugin: SourceTask, deliveries: Deliveries, seconds: float) -> None:
        for record in deliveries.take_acknowledged(seconds):
            plugin.commit_record(record)
        self._report.topics(deliveries.topics, self._view.topics_reset)
