"""What a task measures about itself: once per batch and once per transaction, never once per record.

Like Kafka Connect's, minima, maxima and averages cover the last 30 to 60 seconds (two samples of 30 s).
"""

from collections.abc import Callable, Sequence
from typing import Final

from ringfence.connectors.api import RecordBatch, RetriableError, SourceRecord
from ringfence.connectors.api.records import MixedBatch, count_records
from ringfence.fencing.clock import Clock
from ringfence.fencing.errors import FencingError

WINDOW_S: Final = 30.0
"""The length of one sample; a spread covers two."""

Batch = Sequence[SourceRecord] | RecordBatch | None


class Spread:
    """The count, sum, minimum and maximum of values."""

    __slots__ = ("count", "largest", "smallest", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = self.smallest = self.largest = 0.0

    def add(self, value: float) -> None:
        if not self.count or value < self.smallest:
            self.smallest = value
        if not self.count or value > self.largest:
            self.largest = value
        self.sum += value
        self.count += 1


class Window:
    """The spread of the last 30 to 60 seconds. One thread adds; any thread may call `read`, which changes nothing."""

    __slots__ = ("_before", "_current", "_ends")

    def __init__(self) -> None:
        self._before, self._current = Spread(), Spread()
        self._ends = 0.0

    def add(self, value: float, now: float) -> None:
        """`now`: monotonic seconds."""
        if now >= self._ends:
            self._before = self._current if now < self._ends + WINDOW_S else Spread()
            self._current = Spread()
            self._ends = now + WINDOW_S
        self._current.add(value)

    def read(self, now: float) -> dict[str, float]:
        """Return min, max, sum and count; all 0 if nothing was added lately."""
        parts = (self._before, self._current) if now < self._ends else (self._current,)
        spreads = [part for part in parts if part.count and now < self._ends + WINDOW_S]
        return {
            "min": round(min((part.smallest for part in spreads), default=0.0), 3),
            "max": round(max((part.largest for part in spreads), default=0.0), 3),
            "sum": round(sum(part.sum for part in spreads), 3),
            "count": sum(part.count for part in spreads),
        }


class Measures:
    """The measurements of one attempt. The task's and the committing thread write them, the reporting thread reads
    them.

    Counts are cumulative since the attempt's start; times are in milliseconds.
    """

    def __init__(self) -> None:
        self.polled = 0
        self.retries = 0
        self.record_errors = 0
        self.record_failures = 0
        self.records_skipped = 0
        self.errors_logged = 0
        self.dead_letters = 0
        self.last_error = 0.0
        self.commit_failures = 0
        self.producers_renewed = 0
        """How often: after aborts, and after commits that may have been sent more than once."""
        self.poll_s = 0.0
        """How long the last `poll` took that did not fail."""
        self.poll_ms = Window()
        self.batch_records = Window()
        self.active_records = Window()
        self.commit_ms = Window()
        self.commit_failed = Window()
        self.transaction_records = Window()

    def poll(self, poll: Callable[[], Batch], clock: Clock) -> Batch:
        """Call `poll`, and count what it returns unless that is empty."""
        start = clock.monotonic()
        try:
            batch = poll()
        except RetriableError:
            self.retries += 1
            self.record_errors += 1
            self.last_error = clock.wall()
            raise
        now = clock.monotonic()
        self.poll_s = now - start
        if batch:
            size = count_records(batch)
            self.polled += size
            self.poll_ms.add(self.poll_s * 1000, now)
            self.batch_records.add(size, now)
        return batch

    def count_failure(self, error: Exception, clock: Clock) -> None:
        """Count the error that ends the attempt. An error of Kafka is not caused by a record."""
        self.last_error = clock.wall()
        if not isinstance(error, FencingError):
            self.record_errors += 1
            self.record_failures += 1

    def count_retry(self, clock: Clock) -> None:
        """Count a retry that a transform or converter asked for."""
        self.retries += 1
        self.record_errors += 1
        self.last_error = clock.wall()

    def count_skipped(self, clock: Clock) -> None:
        """Count a record that failed to transform or convert, which the connector tolerates."""
        self.record_errors += 1
        self.record_failures += 1
        self.records_skipped += 1
        self.last_error = clock.wall()

    def count_left_out(self, batch: object, clock: Clock) -> None:
        """Count the records that a serialised batch reports as skipped."""
        if isinstance(batch, MixedBatch):
            for _ in range(batch.skipped):
                self.count_skipped(clock)
            self.dead_letters += batch.letters

    def commit(self, start: float, ok: bool, records: int, clock: Clock) -> float:
        """Count a finished commit of this many records, begun at `start`; return its duration in seconds."""
        seconds = self.flush(start, ok, clock)
        if ok:
            self.transaction_records.add(records, clock.monotonic())
        return seconds

    def flush(self, start: float, ok: bool, clock: Clock) -> float:
        """Count a finished commit of offsets without a transaction, begun at `start`; return its duration in
        seconds.
        """
        now = clock.monotonic()
        self.commit_ms.add((now - start) * 1000, now)
        self.commit_failed.add(0.0 if ok else 1.0, now)
        if not ok:
            self.commit_failures += 1
        return now - start

    def report(self, now: float) -> dict[str, object]:
        """The fields of a `progress` event (`fencing.topics.events`)."""
        return {
            "polled": self.polled,
            "retries": self.retries,
            "record_errors": self.record_errors,
            "record_failures": self.record_failures,
            "records_skipped": self.records_skipped,
            "errors_logged": self.errors_logged,
            "dead_letters": self.dead_letters,
            "commit_failures": self.commit_failures,
            "producers_renewed": self.producers_renewed,
            "last_error_ms": int(self.last_error * 1000),
            "poll_ms": self.poll_ms.read(now),
            "batch_records": self.batch_records.read(now),
            "active_records": self.active_records.read(now),
            "commit_times_ms": self.commit_ms.read(now),
            "commit_failed": self.commit_failed.read(now),
            "transaction_records": self.transaction_records.read(now),
        }


class StateTimes:
    """How long the attempt has been in each state, such as running or paused."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._state = ""
        self._spent: dict[str, float] = {}

    def enter(self, state: str, now: float) -> None:
        self._spent[self._state] = self._spent.get(self._state, 0.0) + now - self._since
        self._state, self._since = state, now

    def report(self, now: float) -> dict[str, object]:
        """Milliseconds in each state since the attempt's start, and in total."""
        spent = {**self._spent, self._state: self._spent.get(self._state, 0.0) + now - self._since}
        return {
            "running_ms": int(spent.get("RUNNING", 0.0) * 1000),
            "paused_ms": int(spent.get("PAUSED", 0.0) * 1000),
            "life_ms": int(sum(spent.values()) * 1000),
        }
