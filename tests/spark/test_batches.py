"""The sink's protocol on a real broker, without Spark: each batch once, whoever dies or hangs between which steps."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.open_transactions import TransactionEnder
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.spark import batches
from ringfence.spark.batches import Assignment, BatchWriter, Columns, WriteParts, write_part
from ringfence.spark.records import Part, SinkLog
from ringfence.spark.settings import RepeatDiffers, SinkError, SinkSettings, Superseded, read_settings
from tests.support.broker import Broker
from tests.support.names import unique

Rows = Sequence[Sequence[int]]
"""By part."""


class Killed(BaseException):
    """The process ends here: nothing after it is done, and nothing is cleaned up."""


def settings_on(broker: Broker, **more: Any) -> SinkSettings:
    name = unique("sink")
    given: dict[str, Any] = {
        "options": {},
        "transaction_timeout_ms": 60_000,
        "repeated_batch": "compare",
        "other_checkpoint": "refuse",
        **more,
    }
    made = read_settings(broker.bootstrap, name, name, log_topic=f"{name}-log", **given)
    create_topics(made.connection, [TopicSpec(name, 3)], Deadline.after(30))
    return made


OPEN: list[BatchWriter] = []


@pytest.fixture(autouse=True)
def _closing() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def run_of(settings: SinkSettings) -> BatchWriter:
    OPEN.append(BatchWriter(settings))
    return OPEN[-1]


def written(rows: Rows, attempt: int | None = None) -> WriteParts:
    def write(assignment: Assignment) -> list[Part]:
        found = []
        for number, part in enumerate(rows):
            texts = [str(row).encode() for row in part]
            block: Columns = {"value": texts, "digest": [hash(text) % 2**40 for text in texts]}
            made = write_part(assignment, number, attempt, [block] if texts else [])
            found += [made] if made else []
        return found

    return write


def visible(settings: SinkSettings) -> list[int]:
    """What a read_committed reader sees; it waits for transactions that are open."""
    log = TopicLog(settings.connection, str(settings.topic))
    try:
        return sorted(int(record.value or b"") for record in log.read_to_end(Deadline.after(20)))
    finally:
        log.close()


@contextmanager
def killed_at(owner: type, name: str, after: bool = False, part: bool = False) -> Iterator[None]:
    """The process dies before or after this call; `part`: when the call has done it for the first item only."""
    real: Callable[..., Any] = getattr(owner, name)

    def call(self: Any, *words: Any) -> Any:
        if after:
            real(self, *([words[0][:1], *words[1:]] if part else words))
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        with pytest.raises(Killed):
            yield


STEPS = {
    "parts written": (BatchWriter, "_check_open", False, False),
    "parts checked": (SinkLog, "decide", False, False),
    "decided": (SinkLog, "decide", True, False),
    "first part committed": (TransactionEnder, "commit", True, True),
    "all parts committed": (BatchWriter, "_finish", True, False),
}


@pytest.mark.parametrize("step", STEPS)
def test_killed_between_two_steps(broker: Broker, step: str) -> None:
    settings = settings_on(broker)
    first = run_of(settings)
    first.write(0, "query", written([[1, 2], [3]]))
    with killed_at(*STEPS[step]):
        first.write(1, "query", written([[4, 5], [6], [], [7]]))
    second = run_of(settings)
    second.write(1, "query", written([[4, 5], [6], [], [7]]))
    second.write(2, "query", written([[8]]))
    assert visible(settings) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_failed_step_is_made_good_by_the_same_process(broker: Broker) -> None:
    """A query that failed behind the decision and is started again with the same sink."""
    settings = settings_on(broker)
    sink = run_of(settings)
    with killed_at(TransactionEnder, "commit", after=True, part=True):
        sink.write(0, "query", written([[1], [2], [3]]))
    sink.write(0, "query", written([[1], [2], [3]]))
    assert visible(settings) == [1, 2, 3]


def test_undecided_batch_may_come_with_other_rows(broker: Broker) -> None:
    """Nothing of it was visible."""
    settings = settings_on(broker)
    first, second = run_of(settings), run_of(settings)
    with killed_at(SinkLog, "decide"):
        first.write(0, "query", written([[1], [2]]))
    second.write(0, "query", written([[3, 4, 5]]))
    assert visible(settings) == [3, 4, 5]


def test_repeated_batch_with_other_rows_is_an_error(broker: Broker) -> None:
    settings = settings_on(broker)
    sink = run_of(settings)
    sink.write(0, "query", written([[1, 2], [3]]))
    sink.write(0, "query", written([[3], [2], [1]]))  # divided in another way: the same rows
    with pytest.raises(RepeatDiffers, match=r"3 rows, but 3 are written.*repeated_batch='keep'"):
        sink.write(0, "query", written([[1, 2], [4]]))
    assert visible(settings) == [1, 2, 3]


def test_older_run_is_superseded(broker: Broker) -> None:
    """It has written its parts when another driver starts, and goes on to decide."""
    settings = settings_on(broker)
    old, new = run_of(settings), run_of(settings)

    def hang(assignment: Assignment) -> list[Part]:
        parts = written([[1], [2]])(assignment)
        new.write(0, "query", written([[1], [2]]))
        return parts

    with pytest.raises(Superseded, match="Stop it"):
        old.write(0, "query", hang)
    with pytest.raises(Superseded):
        old.write(1, "query", written([[3]]))
    new.write(1, "query", written([[3]]))
    assert visible(settings) == [1, 2, 3]


def test_older_run_that_was_decided_may_finish(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs commit the same transactions."""
    settings = settings_on(broker)
    old, new = run_of(settings), run_of(settings)
    finish = BatchWriter._finish
    others: list[BatchWriter] = [new]

    def hang(self: BatchWriter, batch: Any) -> frozenset[int]:
        if others:
            others.pop().write(0, "query", written([[1], [2]]))
        return finish(self, batch)

    monkeypatch.setattr(BatchWriter, "_finish", hang)
    old.write(0, "query", written([[1], [2]]))
    with pytest.raises(Superseded):
        old.write(1, "query", written([[3]]))
    new.write(1, "query", written([[3]]))
    assert visible(settings) == [1, 2, 3]


@pytest.mark.parametrize("again", [[[1], [2], [3]], [[1, 2], [3]]])
def test_part_that_timed_out_behind_the_decision(broker: Broker, again: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written again where the batch is divided as before; else nobody can tell which rows are there."""
    settings = settings_on(broker)
    first, second = run_of(settings), run_of(settings)
    with killed_at(TransactionEnder, "commit", after=True, part=True):
        first.write(0, "query", written([[1], [2], [3]]))
    with Fencer(settings.connection) as fencer:  # as the coordinator does when the time is over
        fencer.fence([settings.transactional_id(1, 0, 1, None)], Deadline.after(20))
    if again == [[1], [2], [3]]:
        second.write(0, "query", written(again))
        second.write(1, "query", written([[4]]))
        assert visible(settings) == [1, 2, 3, 4]
    else:
        with pytest.raises(RepeatDiffers, match="as many partitions as before"):
            second.write(0, "query", written(again))
        assert visible(settings) == [1, 3]


def test_part_that_is_lost_before_the_decision(broker: Broker) -> None:
    settings = settings_on(broker)
    sink = run_of(settings)
    calls: list[int] = []

    def lose(assignment: Assignment) -> list[Part]:
        parts = written([[1], [2]])(assignment)
        calls.append(assignment.series)
        if len(calls) == 1 and parts[0].transaction:
            with Fencer(settings.connection) as fencer:
                fencer.fence([parts[0].transaction.transactional_id], Deadline.after(20))
        return parts

    sink.write(0, "query", lose)
    assert visible(settings) == [1, 2]
    assert calls == [0, 1], "the id of an attempt that may be alive was used again"


def test_transactions_of_attempts_that_do_not_count_are_aborted(broker: Broker) -> None:
    settings = settings_on(broker)
    sink = run_of(settings)

    def speculate(assignment: Assignment) -> list[Part]:
        lost = written([[1], [2]])(assignment)
        return [written([[1], [2]], attempt=7)(assignment)[0], lost[1]]

    sink.write(0, "query", speculate)
    assert visible(settings) == [1, 2]  # it waits for nobody


def test_batch_that_fails_leaves_nothing_open(broker: Broker) -> None:
    settings = settings_on(broker)
    sink = run_of(settings)

    def fail(assignment: Assignment) -> list[Part]:
        written([[1], [2]])(assignment)
        raise RuntimeError("an executor is lost")

    with pytest.raises(RuntimeError):
        sink.write(0, "query", fail)
    assert visible(settings) == []
    sink.write(0, "query", written([[1], [2]]))
    assert visible(settings) == [1, 2]


def test_record_that_the_broker_refuses_fails_the_batch(broker: Broker) -> None:
    """No commit tells of it: the executor has to see it."""
    settings = settings_on(broker, options={"kafka.max.request.size": "5000000"})
    sink = run_of(settings)

    def write(assignment: Assignment) -> list[Part]:
        part = write_part(assignment, 0, None, [{"value": [b"1", b"2" * 3_000_000, b"3"], "digest": [1, 2, 3]}])
        return [part] if part else []

    with pytest.raises(SinkError, match="MESSAGE_TOO_LARGE"):
        sink.write(0, "query", write)
    assert visible(settings) == []


def test_batch_whose_transactions_are_nearly_over_is_given_up(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_on(broker)
    sink = run_of(settings)
    now = time.time
    monkeypatch.setattr(batches, "_LONGEST_MARGIN_MS", 10_000_000)
    monkeypatch.setattr(time, "time", lambda: now() + 50)
    with pytest.raises(SinkError, match="transaction_timeout_ms"):
        sink.write(0, "query", written([[1]]))
    monkeypatch.undo()
    assert visible(settings) == []


def test_refusals(broker: Broker) -> None:
    settings = settings_on(broker)
    sink = run_of(settings)
    sink.write(3, "query", written([[1]]))
    with pytest.raises(SinkError, match="an older copy"):
        sink.write(2, "query", written([[2]]))
    with pytest.raises(SinkError, match="another checkpoint"):
        sink.write(0, "other", written([[2]]))
    accepting = run_of(read_again(settings))
    accepting.write(0, "other", written([[2]]))
    accepting.write(0, "other", written([[2]]))
    assert visible(settings) == [1, 2]


def read_again(settings: SinkSettings) -> SinkSettings:
    return read_settings(
        settings.connection.bootstrap,
        settings.topic,
        settings.sink_id,
        {},
        60_000,
        settings.log_topic,
        "compare",
        "accept",
    )


def test_log_is_read_beside_open_transactions(broker: Broker) -> None:
    """Another sink's parts are open on the log for as long as its batch takes."""
    settings = settings_on(broker)
    other = settings_on(broker)
    shared = SinkSettings(Connection(broker.bootstrap), other.sink_id, other.topic, settings.log_topic, 60_000)
    sink = run_of(settings)
    sink.write(0, "query", written([[1]]))
    busy = run_of(shared)

    def hold(assignment: Assignment) -> list[Part]:
        parts = written([[9]])(assignment)
        again = run_of(settings)
        again.write(0, "query", written([[1]]))
        again.write(1, "query", written([[2]]))
        return parts

    busy.write(0, "query", hold)
    assert Counter(visible(settings)) == {1: 1, 2: 1}
