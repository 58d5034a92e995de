"""How many records the open transaction has, the one that is being committed, and the whole attempt."""

from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.task.counters import Counters


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
