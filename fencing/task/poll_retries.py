"""Calls a plugin's `poll`. After a retriable error, it is called again after a growing pause."""

from collections.abc import Callable, Sequence

from ringfence.connectors.api import RecordBatch, RetriableError, SourceRecord, SourceTask
from ringfence.connectors.api.records import EncodedBatches
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.task.config_view import DesiredState
from ringfence.fencing.task.runtime import TaskRuntime
from ringfence.fencing.topics.status import State

_BACKOFF = Backoff(0.1, 60)


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
        self.had_nothing_at = 0.0
        """When the last `poll` began, if the source had nothing; 0 otherwise."""
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
            self.had_nothing_at = 0.0
            pause = _BACKOFF.pause(self._failures)
            self._report.retrying(str(error), self._failures, pause)
            if due_in is not None:
                pause = max(0.0, min(pause, due_in()))
            self._view.wait_while(frozenset({DesiredState.RUN}), pause)
            return None
        if not batch and not self._plugin.has_answered:
            self.had_nothing_at = 0.0
            return None
        if self._failures:
            self._failures = 0
            self._report.source_answers()
        self._counters.last_answer = self._clock.wall()
        if batch:
            self._counters.last_poll = self._counters.last_answer
        self.had_nothing_at = 0.0 if batch else asked_at
        if batch:
            self.newest_at = min(newest_timestamp(batch) / 1000, self._counters.last_answer)
        return batch

    def sit_out(self, verdict: DesiredState) -> None:
        """Report a pause, and wait until it is over."""
        self._report.running(State.PAUSED)
        self._view.wait_while(frozenset({verdict}), 3600)
        if self._view.verdict is DesiredState.RUN:
            self._report.running(State.RUNNING)
