"""What an attempt has read, sent and committed since it started."""

from dataclasses import dataclass, field

from ringfence.fencing.metrics import Measures
from ringfence.fencing.offsets.record_counts import RecordCounts
from ringfence.fencing.task.traced_transactions import TracedTransactions


@dataclass(slots=True)
class Counters:
    """Cumulative counts since the attempt's start. The task's thread writes them, the reporting thread reads them.

    Times are wall clock. last_answer: when the source last answered, with records or without; data_as_of: all that the
    source had then is committed.
    """

    records: int = 0
    bytes: int = 0
    transactions: int = 0
    aborted: int = 0
    aborted_records: int = 0
    committed: RecordCounts = field(default_factory=RecordCounts)
    open_records: int = 0
    open_since: float = 0.0
    last_poll: float = 0.0
    last_commit: float = 0.0
    last_answer: float = 0.0
    data_as_of: float = 0.0
    commit_s: float = 0.0
    measures: Measures = field(default_factory=Measures)
    traced: TracedTransactions | None = None
    """Where a worker traces transactions."""

    def note_data_as_of(self, at: float) -> None:
        """Note that all that the source had then is committed. An older time says nothing new."""
        self.data_as_of = max(self.data_as_of, at)
