"""Step 8 of a source task: poll, send, end transactions at their boundaries, follow the desired state (invariant 4).

With `transaction.boundary=connector`, only the plugin ends transactions, as in Kafka Connect: an open one is aborted
when the task stops or pauses, and its records are read again later, from the committed offsets. Records that the plugin
aborts are never visible; their source offsets are committed in a separate transaction, or they would be read again
forever.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ringfence.connectors.api import RecordBatch, RetriableError, SourceRecord, SourceTask
from ringfence.connectors.api.records import EncodedBatches
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Clock
from ringfence.fencing.records.prepared_batch import CommittedTransaction, PreparedBatch
from ringfence.fencing.task.boundaries import Boundaries, Boundary
from ringfence.fencing.task.config_view import DesiredState
from ringfence.fencing.task.runtime import TaskRuntime
from ringfence.fencing.task.task_spec import overrides
from ringfence.fencing.task.transaction_context import BatchPart, Ending, RequestedEndings
from ringfence.fencing.task.transactions import Transactions
from ringfence.fencing.topics.status import State

_BACKOFF = Backoff(0.1, 60)
_FEW: Final = 100
"""Records of a transaction that is committed at once where the task keeps up with its source. With more, the next ones
are converted beside the commit.
"""
_WAITS_S: Final = 0.001
_NEW_S: Final = 0.1


def newest_timestamp(batch: Sequence[SourceRecord] | RecordBatch) -> int:
    """Return the timestamp of the batch's last record in milliseconds; 0 if it has none."""
    if isinstance(batch, EncodedBatches):
        return batch.batches[-1].newest_ms if batch.batches else 0
    if isinstance(batch, RecordBatch):
        return (batch.timestamps[-1] or 0) if batch.timestamps else 0
    return batch[-1].timestamp or 0


class Polling:
    """The polls of one plugin instance."""

    def __init__(self, runtime: TaskRuntime, plugin: SourceTask) -> None:
        self._plugin = plugin
        self._view = runtime.view
        self._report = runtime.report
        self._counters = runtime.counters
        self._clock = runtime.clock
        self._failures = 0
        self.took_s = 0.0
        """How long the last `poll` with an answer took."""
        self.had_nothing_at = 0.0
        """When a `poll` began that found nothing after what was read; 0 if something came since."""
        self.newest_at = 0.0
        """The newest record's time by the source, as far as it tells one; 0 if it does not."""

    def poll(self, due_in: Callable[[], float] | None = None) -> Sequence[SourceRecord] | RecordBatch | None:
        """Return the next batch; None, after a growing pause, if the plugin asks to be called again.

        due_in: returns the seconds until the caller has something else to do; called before a pause, which it limits.
        """
        asked_at = self._clock.wall()
        try:
            batch = self._counters.measures.poll(self._plugin.poll, self._clock)
        except RetriableError as error:
            self._failures += 1
            pause = _BACKOFF.pause(self._failures)
            self._report.retrying(str(error), self._failures, pause)
            if due_in is not None:
                pause = max(0.0, min(pause, due_in()))
            self._view.wait_while(frozenset({DesiredState.RUN}), pause)
            return None
        if not batch and not self._plugin.has_answered:
            if self._plugin.answers_in_part:
                self._end_outage()
            return None
        self._end_outage()
        self.took_s = self._counters.measures.poll_s
        self._counters.last_answer = self._clock.wall()
        if batch:
            self._counters.last_poll = self._counters.last_answer
        self.had_nothing_at = 0.0 if batch else asked_at
        if batch:
            self.newest_at = min(newest_timestamp(batch) / 1000, self._counters.last_answer)
        return batch

    @property
    def keeps_up(self) -> bool:
        """Whether the plugin has waited for its source, and its newest record is a moment old."""
        return self.took_s >= _WAITS_S and self._counters.last_answer - self.newest_at < _NEW_S

    def _end_outage(self) -> None:
        if self._failures:
            self._failures = 0
            self._report.source_answers()

    def sit_out(self, verdict: DesiredState) -> None:
        """Report a pause, and wait until it is over."""
        self._report.running(State.PAUSED)
        self._view.wait_while(frozenset({verdict}), 3600)
        if self._view.verdict is DesiredState.RUN:
            self._report.running(State.RUNNING)


_PAUSED_OR_WAITING = frozenset({DesiredState.PAUSE, DesiredState.WAIT})


class PollLoop:
    """Runs one instance of a plugin, from its first `poll` until the desired state ends it or an error is raised.

    requests: the plugin's, if it defines transactions itself, or a snapshot's. renew(transactions, why): gives the
    transactions a new producer in place of one that is spent (invariant 11).
    """

    def __init__(
        self,
        runtime: TaskRuntime,
        plugin: SourceTask,
        transactions: Transactions,
        boundaries: Boundaries,
        *,
        requests: RequestedEndings | None,
        renew: Callable[[Transactions, str], None],
    ) -> None:
        self._plugin = plugin
        self._transactions = transactions
        self._boundaries = boundaries
        self._view = runtime.view
        self._report = runtime.report
        self._clock = runtime.clock
        self._counters = runtime.counters
        self._requests = requests
        self._renew = renew
        # The next batch may be read during a commit, unless the plugin must be told of the commit first.
        # A share group's records are answered before the next ones come.
        listens = overrides(plugin, "commit") or overrides(plugin, "commit_record")
        self._overlap = (plugin.polls_during_commit or not listens) and transactions.share is None
        self._polling = Polling(runtime, plugin)
        self._committing_at = 0.0

    def run(self) -> bool:
        """Return True if the attempt must end. Return False if it must start again from the committed offsets, now or
        after a pause: only the plugin could commit the open transaction, and a plugin cannot be rewound (invariant 12).
        """
        while True:
            verdict = self._view.verdict
            if verdict is not DesiredState.RUN:
                self._finish(verdict)
                if verdict not in _PAUSED_OR_WAITING:
                    return True
                if self._transactions.has_work:
                    return False
                if self._transactions.share is not None:
                    self._transactions.share.rest()
                self._polling.sit_out(verdict)
                continue
            batch = self._polling.poll(self._due_in)
            if self._requests is None or batch is None:
                self._take(BatchPart(batch))
            else:
                for part in self._requests.parts(batch):
                    self._take(part)
            if self._polling.had_nothing_at and self._transactions.is_settled:
                self._counters.note_data_as_of(self._polling.had_nothing_at)

    def commit_now(self) -> None:
        """Commit what is open, between two batches, because the source is about to be assigned to another task."""
        self._settle(self._transactions.settle())
        if self._transactions.has_work:
            self._end(None if self._requests is None else self._requests.at_the_end())
            self._settle(self._transactions.settle())

    def _take(self, part: BatchPart) -> None:
        transactions = self._transactions
        ready = self._prepare(part.batch) if part.batch else None
        self._settle(transactions.settle())
        self._renew_spent("the last transaction is not confirmed; a new producer ends it")
        if ready is not None:
            transactions.send(ready)
        if part.ending is not None or self._due():
            self._end(part.ending)
            if not self._overlap:
                self._settle(transactions.settle())

    def _renew_spent(self, why: str) -> None:
        if self._transactions.spent:
            self._renew(self._transactions, why)

    def _due(self) -> bool:
        if self._requests is not None and self._requests.holds():
            return False
        return self._boundaries.due(self._clock.monotonic(), self._transactions.last_commit_at)

    def _end(self, ending: Ending | None) -> None:
        transactions = self._transactions
        if ending is Ending.ABORT and transactions.abort():
            self._renew_spent("the connector aborted a transaction")
        if transactions.has_work:
            self._committing_at = max(self._polling.newest_at, self._polling.had_nothing_at)
            few = self._counters.open_records <= _FEW
            transactions.start_commit(at_once=few and self._polling.keeps_up)

    def _due_in(self) -> float:
        """Return when a pause ends because the open transaction must be committed: its readers do not wait for the
        source.
        """
        return due_in(self._transactions, self._boundaries, self._clock)

    def _prepare(self, batch: Sequence[SourceRecord] | RecordBatch) -> PreparedBatch:
        """Convert during the commit; if that fails, the commit's outcome comes first."""
        try:
            return self._transactions.prepare(batch)
        except Exception:
            self._settle(self._transactions.settle())
            raise

    def _finish(self, verdict: DesiredState) -> None:
        """Commit what is open (invariant 4), unless only the plugin may do so."""
        self._settle(self._transactions.settle())
        ending = Ending.COMMIT if self._requests is None else self._requests.at_the_end()
        if ending is None or (ending is Ending.ABORT and verdict is DesiredState.END):
            return  # aborted at the end of this run; a new producer of a superseded attempt would fence the next one
        self._end(ending)
        self._settle(self._transactions.settle())

    def _settle(self, transaction: CommittedTransaction | None) -> None:
        if transaction is None:
            return
        for record in transaction.records:
            self._plugin.commit_record(record)
        if transaction.positions:
            self._plugin.note_positions(transaction.positions)
        self._plugin.commit()
        self._counters.note_data_as_of(self._committing_at)
        self._report.topics(transaction.topics, self._view.topics_reset)


def due_in(transactions: Transactions | None, boundaries: Boundaries, clock: Clock) -> float:
    """Return the seconds until the open transaction must be committed: the plugin may wait for its source that long."""
    if transactions is None or not transactions.has_work or boundaries.kind is not Boundary.INTERVAL:
        return 3600.0
    return transactions.last_commit_at + boundaries.interval_s - clock.monotonic()
