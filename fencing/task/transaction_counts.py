"""How many records the open transaction, the one that is being committed, and the whole attempt hold."""

from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.task.counters import Counters


class TransactionCounts:
    """Used on the task's thread. What was committed is told to the counters."""

    def __init__(self, counters: Counters, attempt: tuple[int, int, int]) -> None:
        """`attempt`: task, generation and attempt, under which transactions tell what they have committed."""
        self._counters = counters
        self._attempt = attempt
        self._open = RecordCounts()
        self._pending = RecordCounts()
        self._sent = self._sent_before = 0

    def add(self, counts: RecordCounts) -> None:
        """To the open transaction."""
        self._open = self._open.plus(counts)
        self._sent += counts.records + counts.dead_letters

    def begin_life(self) -> None:
        """The next producer begins; its sequence numbers do, too."""
        self._sent = self._sent_before = 0

    def headers(self) -> list[tuple[str, bytes]]:
        """Of the transaction's last source offset: what the attempt will have committed with it."""
        committed = self._counters.committed.plus(self._open)
        return record_counts.encode(AttemptCounts(*self._attempt, committed, (self._sent_before, self._sent)))

    def begin_commit(self) -> None:
        self._pending, self._open = self._open, RecordCounts()
        self._sent_before = self._sent

    def commit_succeeded(self) -> None:
        self._counters.committed = self._counters.committed.plus(self._pending)

    def commit_failed(self) -> None:
        self._open = self._pending.plus(self._open)

    def abort(self) -> None:
        """Its records are never visible. Those that it skipped are read no more: their source offsets are committed."""
        self._counters.aborted += 1
        self._counters.aborted_records += self._open.records + self._open.dead_letters
        self._open = RecordCounts(0, self._open.skipped, 0)

    def read_again(self, known: SourceOffsets) -> None:
        """What this attempt has committed, as Kafka has it: a commit in doubt is in it if it went through."""
        kept = known.counts.get(self._attempt)
        if kept is not None:
            self._counters.committed = self._counters.committed.most(kept)
