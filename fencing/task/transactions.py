"""A task's open transaction: begun late, offsets last, committed during the next poll (KIP-618, "Atomic writes").

A commit runs on its own thread while the plugin reads the next batch; nothing is produced before its outcome is known.
`settle` takes the outcome, on the task's thread. A task that only waits for its source commits on its own thread, which
saves two changes of threads in each transaction.
"""

import logging
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor

from ringfence.connectors.api import RecordBatch, SourceRecord
from ringfence.connectors.api.records import EncodedBatches
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, FencingError, UnknownOutcome
from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.ledger_keys import log_partition_of
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffsets, canonical, encode_value
from ringfence.fencing.offsets.stores import OffsetsCopy
from ringfence.fencing.records.prepared_batch import CommittedTransaction, GatheredOffsets, PreparedBatch
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.share.share_group_source import ShareSource
from ringfence.fencing.task.attempt_report import Counters
from ringfence.fencing.task.group_source import GroupOffsets, GroupSource
from ringfence.fencing.task.runtime import TaskRuntime
from ringfence.fencing.task.task_offsets import Positions
from ringfence.fencing.task.traced_transactions import ABORTED, COMMITTED, FAILED, UNKNOWN
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.fencing.transactions.record_columns import RecordColumns

log = logging.getLogger(__name__)

_ABORT_S = 10.0
_AT_ONCE_S = 0.05
"""So long the task's thread waits for a commit. The other thread then goes on, and the task can be stopped."""


class Transactions:
    """The transactions of a task, one after another."""

    def __init__(
        self,
        runtime: TaskRuntime,
        producer: TransactionalClient,
        offsets_topic: str,
        offsets: SourceOffsets,
        path: RecordPath,
        *,
        commit_timeout_s: float,
        keep_records: bool,
        single_batches: bool = False,
        copy: OffsetsCopy | None = None,
        clear: Callable[[Set[str]], None] = lambda _: None,
    ) -> None:
        """keep_records: the plugin overrides `commit_record`. single_batches: each of its batches is a transaction.

        offsets_topic: the effective one; copy: to the worker's topic if that is another. It is closed at the end.
        clear: called before a producer first writes to topics; returns once no transaction of its older epochs hangs
        there, which a commit's marker would make visible (invariant 13).
        """
        self._producer = producer
        self._stopping = runtime.require_current
        producer.waiting = self._stopping
        self._offsets_topic = offsets_topic
        self._offsets = offsets
        self._path = path
        self._counters = counters = runtime.counters
        self._clock = runtime.clock
        self._commit_timeout_s = commit_timeout_s
        self._keep = keep_records
        self._single_batches = single_batches
        self._copy = copy
        self._clear = clear
        self._counts = TransactionCounts(counters, runtime.attempt)
        self._counts.read_again(offsets)
        self._traced = counters.traced
        self._headers: list[tuple[str, bytes]] = []
        self._cleared_topics: set[str] = set()
        self._gathered_offsets = GatheredOffsets()
        self._own = GatheredOffsets()  # committed since `_offsets` was read
        self._records: list[SourceRecord] = []
        self._topics: set[str] = set()
        self._open = self._in_doubt = False
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._pending: Future[None] | None = None
        self._pending_batch = CommittedTransaction((), ())
        self._pending_size = 0
        self.last_commit_at = self._clock.monotonic()
        self.group: GroupSource | None = None
        """The consumer group whose offsets are committed in place of source offsets, if the plugin has joined one."""
        self.share: ShareSource | None = None
        """The share group whose ledger is committed instead, if the plugin has joined one."""
        self.positions: Positions | None = None
        """The positions of the records, if the plugin wants them."""

    @property
    def spent(self) -> bool:
        """Whether the producer can no longer be used: replace it before the next batch.

        Raises the producer's error if it has failed within a transaction: a new producer would go on without the
        records of that transaction.
        """
        if not self._producer.spent:
            return False
        if self._open and not self._in_doubt:
            self._producer.flush(0)
            raise Abortable("The producer ended within a transaction")
        return True

    @property
    def has_work(self) -> bool:
        """Whether there is something to commit; after `abort`, source offsets without their records."""
        return bool(self._gathered_offsets) or (self.share is not None and self.share.has_work)

    @property
    def is_settled(self) -> bool:
        """Whether all that was read is committed."""
        return self._pending is None and not self._open and not self.has_work

    def prepare(self, batch: Sequence[SourceRecord] | RecordBatch) -> PreparedBatch:
        """Transform and convert a batch. A commit may be in progress: what its thread would do first then is done
        already when that commit ends.
        """
        ready = self._path.prepare(batch)
        if self._single_batches and self._pending is not None and self.positions is None and len(ready.columns) == 1:
            self._producer.encode_ahead(ready.columns[0])
        return ready

    def send(self, ready: PreparedBatch) -> None:
        """Produce a batch in the open transaction, or in a new one. Settle the last commit first."""
        assert self._pending is None, "settle the last commit before the next batch"
        self._begin(ready.topics)
        self._topics |= ready.topics
        if self._traced is not None:
            self._traced.look(ready)
        before = self._path.bytes
        if isinstance(ready.batch, EncodedBatches):
            self._producer.send_batches(ready.batch.batches)
            self._path.note_sent(ready, self._gathered_offsets)
        else:
            if self.positions is not None:
                self.positions.begin_batch(ready.count)
            self._path.send(ready, self._produce, self._gathered_offsets)
        self._counts.add(ready.counts)
        self._counters.records += ready.count
        self._counters.open_records += ready.count
        self._counters.measures.active_records.add(self._counters.open_records, self._clock.monotonic())
        self._counters.bytes += self._path.bytes - before
        self._counters.measures.count_left_out(ready.batch, self._clock)
        if self._keep and not isinstance(ready.batch, RecordBatch):
            self._records.extend(ready.batch)

    def _produce(self, columns: RecordColumns) -> None:
        self._producer.produce_columns(columns, None if self.positions is None else self.positions.noting(columns))

    def count_partitions(self, topic: str) -> int:
        """Return how many partitions a topic has that records are going to; it is created first if it may be."""
        self._path.prepare_topic(topic)
        return self._producer.count_partitions(topic)

    def _begin(self, topics: Set[str] = frozenset()) -> None:
        if not topics <= self._cleared_topics or self._offsets_topic not in self._cleared_topics:
            new_topics = {*topics, self._offsets_topic} - self._cleared_topics
            self._clear(new_topics)
            self._cleared_topics |= new_topics
        if not self._open:
            self._producer.begin()
            self._counts.begin_transaction((self._producer.producer_id, self._producer.epoch))
            self._open = True
            self._counters.open_since = self._clock.wall()
            if self._traced is not None:
                self._traced.begin(self._producer.producer_id, self._producer.epoch)
            if self.share is not None:
                letters = self.share.begin(self._producer.produce, self._offsets_topic)
                self._counts.add(RecordCounts(dead_letters=letters))

    def start_commit(self, *, at_once: bool = False) -> None:
        """Produce the offsets, and commit on the other thread. `settle` returns the outcome.

        at_once: commit on this thread, unless that takes long: there is nothing to be read beside it.
        """
        self._path.check_again(self._topics)
        self._begin()
        if self.group is not None:
            self._start_commit_of_group(self.group)
            return
        offsets = self._gathered_offsets.take()
        if self.share is not None:
            offsets = self.share.states()
        if self._copy is not None:
            self._copy.before(offsets)
        self._headers = self._counts.headers()
        for number, (partition, offset) in enumerate(offsets, 1):
            key = self._offsets.key_of(partition)
            headers = self._headers if number == len(offsets) else None
            self._producer.produce(
                self._offsets_topic, encode_value(offset), key, log_partition_of(key), headers=headers
            )
        self._submit(offsets, (), at_once=at_once and self.share is None)

    def _start_commit_of_group(self, group: GroupSource) -> None:
        group_offsets = group.offsets_for(self._gathered_offsets.peek())
        self._gathered_offsets.take()
        self._submit((), group_offsets)

    def _submit(
        self,
        offsets: Sequence[tuple[Partition, Offset | None]],
        group_offsets: GroupOffsets,
        *,
        at_once: bool = False,
    ) -> None:
        if not at_once:
            # The brokers then write beside the next poll: the other thread may get the interpreter only after it.
            self._producer.flush(0)
        positions = () if self.positions is None else self.positions.take()
        self._pending_batch = CommittedTransaction(self._records, offsets, frozenset(self._topics), positions)
        self._pending_size = self._counters.open_records
        self._records, self._topics = [], set()
        self._counts.begin_commit()
        if self._traced is not None:
            self._traced.begin_commit(self._pending_size)
        began = self._clock.monotonic()
        self._pending = self._commit_at_once(began) if at_once else None
        if self._pending is None:
            self._pending = self._committer.submit(self._commit, group_offsets, began)

    def _commit_at_once(self, began: float) -> "Future[None] | None":
        """Commit on this thread. Return the outcome; None if there is none soon."""
        outcome: Future[None] = Future()
        try:
            if not self._producer.try_commit(_AT_ONCE_S):
                return None
        except FencingError as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)
        self._note_outcome(began, ok=outcome.exception() is None)
        return outcome

    def _commit(self, group_offsets: GroupOffsets, began: float) -> None:
        ok = False
        try:
            deadline = Deadline.after(self._commit_timeout_s, self._clock)
            if group_offsets:
                self._producer.send_offsets(*group_offsets, deadline)
            if self.share is not None:
                self.share.check(self._producer.flush, deadline)
            self._producer.commit(deadline)
            ok = True
        finally:
            self._note_outcome(began, ok=ok)

    def _note_outcome(self, began: float, *, ok: bool) -> None:
        counters = self._counters
        counters.commit_s = counters.measures.commit(began, ok, self._pending_size, self._clock)
        if self._traced is not None:
            self._traced.note_answer()

    def settle(self) -> CommittedTransaction | None:
        """Wait for the commit in progress, if any. Raises what it raised; returns what it committed."""
        if self._pending is None:
            return None
        self._await_commit(None)
        if self.share is not None:
            self.share.settle()
        if self._copy is not None:
            self._copy.after(self._pending_batch.offsets, self._headers)
        counters = self._counters
        counters.transactions += 1
        self._counts.commit_succeeded()
        self._end_trace(COMMITTED)
        counters.last_commit = self._clock.wall()
        self.last_commit_at = self._clock.monotonic()
        for partition, offset in self._pending_batch.offsets:
            self._own.put(partition, offset)
        return self._pending_batch

    def _await_commit(self, seconds: float | None) -> None:
        """Wait for the commit; until then the transaction counts as open. Raises what it raised, or `TimeoutError`."""
        assert self._pending is not None
        pending = self._pending
        try:
            pending.result(seconds)
        except BaseException as error:
            self._in_doubt |= isinstance(error, UnknownOutcome | TimeoutError)
            self._counts.commit_failed()
            self._end_trace(UNKNOWN if self._in_doubt else FAILED)
            raise
        finally:
            self._pending = None
        self._nothing_open()

    def abort(self) -> bool:
        """Abort at the connector's request; False if nothing is open. Settle the last commit first.

        The collected offsets are kept: the next commit covers the source offsets of the aborted records.
        """
        assert self._pending is None, "settle the last commit before an abort"
        if not self._open:
            log.warning("The connector asked to abort a transaction, but none is open")
            return False
        confirmed = self._producer.abort(Deadline.after(_ABORT_S, self._clock))
        self._counts.abort()
        self._end_trace(ABORTED)
        self._nothing_open()
        self._open = self._in_doubt = not confirmed
        return True

    def _end_trace(self, outcome: str) -> None:
        if self._traced is not None:
            self._traced.end(outcome)

    def _nothing_open(self) -> None:
        self._open = False
        self._counters.open_records = 0
        self._counters.open_since = 0.0

    def retire(self) -> None:
        """Close the producer; `take_over` sets the next one."""
        self._producer.close()

    def take_over(self, producer: TransactionalClient) -> None:
        """Continue with a new producer. Its `init` has ended whatever the last one left open."""
        self._producer = producer
        producer.waiting = self._stopping
        self._open = self._in_doubt = False
        self._cleared_topics.clear()

    def check(self, now: SourceOffsets) -> None:
        """Raise `Abortable` unless the offsets that this run relies on are still the newest: those that it committed,
        and those that it read for the partitions to commit next.
        """
        offsets = {canonical(p): (p, self._offsets.offset(p)) for p, _ in self._gathered_offsets.peek()}
        offsets.update((canonical(p), (p, offset)) for p, offset in self._own.take())
        require_newest(offsets.values(), now)
        self._offsets = now
        self._counts.read_again(now)

    def abandon(self, seconds: float) -> bool:
        """Abort what is open, if possible within `seconds`, and close the producer.

        Returns True if a transaction may still be open, because the outcome of its commit is unknown or the broker did
        not confirm the abort. The next `init` of the id ends it; if no attempt follows, the leader's fence does.
        """
        deadline = Deadline.after(seconds, self._clock)
        try:
            self._end_open(deadline)
        finally:
            left = self._open
            self._nothing_open()
            self._committer.shutdown(wait=False)
            self._producer.close()
            if self._copy is not None:
                self._copy.close()
        return left

    def _end_open(self, deadline: Deadline) -> None:
        if self._pending is not None and not self._pending.cancel():
            try:
                self._await_commit(deadline.remaining)
            except (FencingError, TimeoutError) as error:
                log.info("The commit that was under way when the attempt ended: %s", str(error) or "no answer in time")
        self._pending = None
        if self._open and not self._in_doubt and self._producer.abort(deadline):
            self._counts.abort()
            self._end_trace(ABORTED)
            self._open = False


def require_newest(offsets: Iterable[tuple[Partition, Offset | None]], now: SourceOffsets) -> None:
    """Raise `Abortable` for the first source partition whose committed offset is another one now."""
    for partition, offset in offsets:
        current = now.offset(partition)
        if _as_read(current) != _as_read(offset):
            raise Abortable(
                f"The committed offset of {dict(partition)} is {current}, but {offset} was expected: the task "
                "starts again from the offsets in Kafka"
            )


def _as_read(offset: Offset | None) -> str | None:
    return None if offset is None else canonical(offset)


class TransactionCounts:
    """Used on the task's thread. Committed records are added to the counters."""

    def __init__(self, counters: Counters, attempt: tuple[int, int, int]) -> None:
        """attempt: task, generation and attempt, which the transactions' counts name."""
        self._counters = counters
        self._attempt = attempt
        self._open = RecordCounts()
        self._pending = RecordCounts()
        self._total = self._sent_before = 0
        self._identity: object = None

    def add(self, counts: RecordCounts) -> None:
        """Add to the open transaction."""
        self._open = self._open.plus(counts)
        self._total += counts.records + counts.dead_letters

    def begin_transaction(self, identity: object) -> None:
        """identity: of the producer, its id and epoch. Another one begins with the sequence numbers at 0."""
        if identity != self._identity:
            self._identity = identity
            self._total = self._sent_before = 0

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of the transaction's last source offset: what the attempt will have committed with it."""
        committed = self._counters.committed.plus(self._open)
        return record_counts.encode(AttemptCounts(*self._attempt, committed, (self._sent_before, self._total)))

    def begin_commit(self) -> None:
        self._pending, self._open = self._open, RecordCounts()
        self._sent_before = self._total

    def commit_succeeded(self) -> None:
        self._counters.committed = self._counters.committed.plus(self._pending)

    def commit_failed(self) -> None:
        self._open = self._pending.plus(self._open)

    def abort(self) -> None:
        """Drop the counts of the open transaction, whose records never become visible. Its skipped records still count,
        because their source offsets are committed.
        """
        self._counters.aborted += 1
        self._counters.aborted_records += self._open.records + self._open.dead_letters
        self._open = RecordCounts(0, self._open.skipped, 0)

    def read_again(self, offsets: SourceOffsets) -> None:
        """Take the attempt's counts from Kafka: they include a commit with an unknown outcome if it succeeded."""
        counts = offsets.counts.get(self._attempt)
        if counts is not None:
            self._counters.committed = self._counters.committed.most(counts)
