"""What a task measures about itself: per batch and transaction, over the last minute."""

import pytest

from ringfence.connectors.api import RetriableError, SerializedRecords, SourceRecord
from ringfence.fencing.errors import Abortable
from ringfence.fencing.metrics import Measures, StateTimes, Window


class TurnedClock:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + 1_700_000_000


def test_a_window_knows_the_last_half_to_whole_minute() -> None:
    window = Window()
    window.add(5, 0.0)
    window.add(1, 29.0)
    assert window.read(29.0) == {"min": 1, "max": 5, "sum": 6, "count": 2}
    window.add(3, 31.0)
    assert window.read(31.0) == {"min": 1, "max": 5, "sum": 9, "count": 3}
    window.add(4, 62.0)
    assert window.read(62.0) == {"min": 3, "max": 4, "sum": 7, "count": 2}


def test_what_is_old_is_forgotten_even_when_nothing_new_comes() -> None:
    window = Window()
    window.add(5, 0.0)
    assert window.read(59.0)["count"] == 1
    assert window.read(60.0) == {"min": 0, "max": 0, "sum": 0, "count": 0}
    window.add(2, 500.0)
    assert window.read(500.0) == {"min": 2, "max": 2, "sum": 2, "count": 1}


def test_a_poll_is_timed_and_its_batch_counted() -> None:
    clock, measures = TurnedClock(), Measures()

    batch = [SourceRecord({}, {}, "t", 1), SerializedRecords({}, {}, "t", [b"2", b"3"], [None, None])]

    def slow() -> list[SourceRecord]:
        clock.now += 0.25
        return batch

    assert measures.poll(slow, clock) == batch
    assert measures.poll(lambda: None, clock) is None
    reported = measures.report(clock.now)
    assert reported["polled"] == 3
    assert reported["poll_ms"] == {"min": 250, "max": 250, "sum": 250, "count": 1}
    assert reported["batch_records"] == {"min": 3, "max": 3, "sum": 3, "count": 1}


def test_a_poll_that_asks_for_another_try_is_an_error_and_no_failure() -> None:
    clock, measures = TurnedClock(), Measures()

    def away() -> None:
        raise RetriableError("the source is away")

    with pytest.raises(RetriableError):
        measures.poll(away, clock)
    assert (measures.retries, measures.record_errors, measures.record_failures) == (1, 1, 0)
    assert measures.last_error == clock.wall()


def test_kafka_s_errors_are_no_record_s_fault() -> None:
    clock, measures = TurnedClock(), Measures()
    measures.count_failure(Abortable("the broker went away"), clock)
    assert (measures.record_errors, measures.record_failures) == (0, 0)
    measures.count_failure(ValueError("not a number"), clock)
    assert (measures.record_errors, measures.record_failures) == (1, 1)


def test_commits_are_timed_whether_they_succeed_or_not() -> None:
    clock, measures = TurnedClock(), Measures()
    assert measures.commit(clock.now - 0.5, True, 2000, clock) == 0.5
    measures.commit(clock.now - 1.5, False, 10, clock)
    reported = measures.report(clock.now)
    assert reported["commit_times_ms"] == {"min": 500, "max": 1500, "sum": 2000, "count": 2}
    assert reported["commit_failed"] == {"min": 0, "max": 1, "sum": 1, "count": 2}
    assert reported["transaction_records"] == {"min": 2000, "max": 2000, "sum": 2000, "count": 1}
    assert reported["commit_failures"] == 1


def test_the_time_in_each_state_adds_up() -> None:
    times = StateTimes(10.0)
    times.enter("RUNNING", 11.0)
    times.enter("PAUSED", 14.0)
    times.enter("RUNNING", 15.0)
    assert times.report(16.0) == {"running_ms": 4000, "paused_ms": 1000, "life_ms": 6000}
