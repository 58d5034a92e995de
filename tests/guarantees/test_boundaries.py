"""Boundaries `poll` and `interval` on the real broker: where transactions end, and for how long they may last."""

from collections.abc import Sequence

import pytest

from ringfence.connectors.api import RecordBatch, SourceRecord
from ringfence.fencing.clock import Deadline
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.producer import Producer
from ringfence.fencing.transactions.record_columns import RecordColumns
from tests.guarantees.stage import Counting, Listening, Plain, Script, Stage
from tests.support.waiting import eventually


def ready(stage: Stage, boundary: str, interval_ms: int = 200_000) -> dict[str, str]:
    made = {"topic": stage.data, "transaction.boundary": boundary}
    if boundary == "interval":
        made["transaction.boundary.interval.ms"] = str(interval_ms)
    stage.configure(made)
    stage.count()
    return made


class Watched(Producer):
    """Notes at each commit whether anything is still to be sent then, and how often a batch was encoded ahead."""

    def __init__(self, spec: TaskSpec, timeout_ms: int) -> None:
        super().__init__(spec.connection, spec.transactional_id, transaction_timeout_ms=timeout_ms)
        self.unsent: list[bool] = []
        self.ahead = 0

    def encode_ahead(self, columns: RecordColumns) -> None:
        super().encode_ahead(columns)
        self.ahead += columns.encoded is not None

    def commit(self, deadline: Deadline) -> None:
        waits = any(queue.waiting for queue in self.machine.queues.busy.values())
        self.unsent.append(waits or self._batching.bytes > 0)
        super().commit(deadline)


def test_brokers_write_a_transaction_beside_the_next_poll(stage: Stage) -> None:
    """The other thread gets the interpreter only when `poll` leaves it. So the records are sent before, and what the
    next transaction sends is encoded while this one is committed.
    """
    producers: list[Watched] = []

    def new_producer(spec: TaskSpec, timeout_ms: int) -> Watched:
        producers.append(Watched(spec, timeout_ms))
        return producers[-1]

    stage.start(Script(limit=3000, batch=100), ready(stage, "poll"), new_producer=new_producer)
    stage.wait_for(3000)
    assert stage.exact(3000) == 3000
    (producer,) = producers
    assert len(producer.unsent) == 30
    # The first ones ask for the topic's leader, and how long leaders wait for markers.
    assert not any(producer.unsent[5:])
    assert producer.ahead > 0


def test_with_poll_each_batch_is_one_transaction(stage: Stage) -> None:
    stage.start(Script(limit=300, batch=70), ready(stage, "poll"))
    stage.wait_for(300)
    assert [len(transaction) for transaction in stage.transactions()] == [70, 70, 70, 70, 20]


def test_with_interval_batches_share_a_transaction_until_its_time_has_come(stage: Stage) -> None:
    script = Script(limit=300, batch=10)
    stage.start(script, ready(stage, "interval"))
    eventually(lambda: bool(script.instances) and script.instances[0].next == 300, 60, "all is polled")
    stage.stop()
    assert [len(transaction) for transaction in stage.transactions()] == [300]


class Asking(Counting):
    """Asks its source once in a minute. Between, it has no answer, as sources with a thread of their own."""

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        batch = super().poll()
        self.has_answered = bool(batch) or self.polls == 2
        return batch


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_data_are_as_of_the_last_time_that_the_source_had_nothing(stage: Stage, boundary: str) -> None:
    """Although the commit that makes it true comes later."""
    attempt = stage.start(Script(limit=50, batch=50), ready(stage, boundary, interval_ms=2_000), kind=Asking)
    stage.wait_for(50)
    eventually(lambda: attempt.run._counters.data_as_of > 0, 20, "the source is asked no more")


class Nothing(Plain):
    """Transforms that drop all but the numbers from 1000 on."""

    transforms = True

    def record(self, record: SourceRecord) -> SourceRecord | None:
        assert isinstance(record.value, bytes)
        return record if int(record.value) >= 1000 else None


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_offsets_of_dropped_records_are_committed_and_the_plugin_hears_of_them(stage: Stage, boundary: str) -> None:
    script = Script(limit=100, batch=30)
    made = ready(stage, boundary)
    stage.start(script, made, kind=Listening, convert=Nothing(raw=False))
    eventually(lambda: bool(script.instances) and script.instances[0].next == 100, 60, "all is polled")
    stage.stop()
    assert (stage.visible(), stage.offset()) == ([], 100)
    assert script.committed == list(range(100))
    assert script.commits == (4 if boundary == "poll" else 1)


@pytest.mark.parametrize("boundary", ["poll", "connector"])
def test_the_flush_timeout_does_not_limit_a_commit(stage: Stage, boundary: str) -> None:
    allowed: list[float] = []

    class Watched(Producer):
        def commit(self, deadline: Deadline) -> None:
            allowed.append(deadline.remaining)
            super().commit(deadline)

    def new_producer(spec: TaskSpec, timeout_ms: int) -> Watched:
        return Watched(spec.connection, spec.transactional_id, transaction_timeout_ms=timeout_ms)

    def ask(task: Counting) -> None:
        if task.context.transaction_context:
            task.context.transaction_context.commit_transaction()

    script = Script(limit=100, before_poll=ask)
    worker = {"offset.flush.timeout.ms": "1", "offset.flush.interval.ms": "1"}
    stage.start(script, ready(stage, boundary), worker=worker, new_producer=new_producer)
    stage.wait_for(100)
    assert min(allowed) > 50, "a commit may take as long as its transaction may last: 60 s"


def test_a_transaction_may_last_three_intervals(stage: Stage) -> None:
    asked: list[int] = []

    def new_producer(spec: TaskSpec, timeout_ms: int) -> Producer:
        asked.append(timeout_ms)
        return Producer(spec.connection, spec.transactional_id, transaction_timeout_ms=timeout_ms)

    stage.start(Script(limit=10), ready(stage, "interval", 50_000), new_producer=new_producer)
    eventually(lambda: bool(asked), 30, "a producer is made")
    assert asked == [150_000]


def test_a_timeout_above_the_brokers_maximum_fails_with_the_remedies(stage: Stage) -> None:
    attempt = stage.start(Script(limit=10), ready(stage, "interval", 400_000))
    trace = attempt.ended().trace or ""
    for part in ("1200000 ms", "transaction.max.timeout.ms", "transaction.boundary.interval.ms", "raise the broker's"):
        assert part in trace


class Ahead(Listening):
    polls_during_commit = True


@pytest.mark.parametrize("kind", [Listening, Ahead])
def test_a_task_is_polled_during_a_commit_only_if_it_wants_no_report_first(stage: Stage, kind: type[Listening]) -> None:
    seen: list[tuple[int, int]] = []
    script = Script(limit=300, batch=100, before_poll=lambda task: seen.append((task.next, len(script.committed))))
    made = ready(stage, "poll")
    stage.start(script, made, kind=kind)
    stage.wait_for(300)
    stage.stop()
    behind = 100 if kind is Ahead else 0
    assert seen[:4] == [(0, 0), (100, 100 - behind), (200, 200 - behind), (300, 300 - behind)]
    assert script.committed == list(range(300))
    stage.exact(300)
