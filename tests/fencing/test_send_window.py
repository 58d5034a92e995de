"""A task gives the producer one batch at a time, so that librdkafka's broker thread can sleep."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ringfence.connectors.api import RecordBatch, SourceRecord
from ringfence.connectors.api.records import MixedBatch
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.producer_interface import Produce, TaskClient
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.transactional_producer import TransactionalProducer
from ringfence.fencing.records.produce_calls import make_call, send_calls, send_raw
from ringfence.fencing.records.send_window import RECORD_OVERHEAD, SendWindow
from ringfence.fencing.task.task_spec import TaskSpec
from tests.guarantees.stage import PARTITION, Counting, Script, Stage
from tests.support.broker import Broker

BATCH = 100_000
MORE = 1.25
WIDTH = 1000
HEADERS: list[tuple[str, bytes | None]] = [("context", bytes(150)), ("source", bytes(100))]
"""As long as those of Debezium's records."""


class Queue:
    """A producer; each delivery takes as long as the test says."""

    def __init__(self, batch: int = BATCH, partitions: int = 1, seconds: float = 0.0) -> None:
        self.sent: list[bytes] = []
        self.queued = self.most = self.waits = self.now = 0.0
        self.seconds = seconds
        self.window = SendWindow(batch, self.deliver, lambda: partitions, lambda: self.now)

    def produce(self, _topic: str, value: bytes, key: bytes | None = None, *more: object) -> None:
        self.sent.append(value)
        headers: Any = more[4] if len(more) > 4 else ()
        self.queued += len(value) + len(key or b"") + RECORD_OVERHEAD
        self.queued += sum(len(name) + len(content) for name, content in headers or ())
        self.most = max(self.most, self.queued)

    def deliver(self) -> None:
        self.waits += 1
        self.queued = 0
        self.now += self.seconds


def batches(values: list[bytes]) -> Iterator[RecordBatch]:
    yield RecordBatch({"file": "a"}, {"at": 7}, "t", values)
    yield RecordBatch({"file": "a"}, {"at": 7}, "t", values, [b"key"] * len(values))
    yield RecordBatch({"file": "a"}, {"at": 7}, "t", values, headers=[HEADERS] * len(values))
    yield MixedBatch([({"file": "a"}, {"at": 7})], "t", values)


@pytest.mark.parametrize("size", [500, 1500, 5000])
def test_no_more_than_one_batch_is_queued(size: int) -> None:
    values = [bytes(size)] * 2000
    for batch in batches(values):
        queue = Queue()
        assert send_raw(batch, queue.produce, lambda: None, queue.window, size * len(values)) == len(values)
        assert queue.sent == values
        assert 0 < queue.most <= max(BATCH * MORE, size * 2 + RECORD_OVERHEAD * 2)
        assert queue.most > BATCH / 2, "much less would be many small requests"
    for headers in (None, HEADERS):
        calls = [make_call("t", value, None, None, None, headers) for value in values]
        queue = Queue()
        assert send_calls(calls, queue.produce, lambda: None, queue.window, size * len(values)) == len(values)
        assert (queue.sent, queue.most <= max(BATCH * MORE, size * 2 + RECORD_OVERHEAD * 2)) == (values, True)


def test_small_batches_of_a_task_add_up() -> None:
    queue = Queue()
    for _ in range(100):
        send_raw(RecordBatch({}, {}, "t", [bytes(964)] * 10), queue.produce, lambda: None, queue.window, 9640)
    assert queue.waits == 10
    assert queue.most <= BATCH * MORE


def test_small_records_do_not_wait() -> None:
    queue = Queue()
    send_raw(RecordBatch({}, {}, "t", [bytes(100)] * 10_000), queue.produce, lambda: None, queue.window, 1_000_000)
    assert (len(queue.sent), queue.waits) == (10_000, 0)


def test_an_empty_batch_and_one_of_nulls_are_sent() -> None:
    queue = Queue()
    assert send_calls([], queue.produce, lambda: None, queue.window, 0) == 0
    assert send_raw(RecordBatch({}, {}, "t", []), queue.produce, lambda: None, queue.window, 0) == 0
    assert send_calls([("t", b"")] * 1000, queue.produce, lambda: None, queue.window, 0) == 1000


def test_a_small_rest_waits_for_nothing() -> None:
    queue = Queue()
    for _ in range(3):
        queue.window.reset()
        send_raw(RecordBatch({}, {}, "t", [bytes(964)] * 110), queue.produce, lambda: None, queue.window, 110 * 964)
    assert queue.waits == 0


def fill(queue: Queue, times: int) -> list[float]:
    """How much was queued at most, each time."""
    found = []
    for _ in range(times):
        queue.most, before = 0.0, queue.waits
        while queue.waits == before:
            send_raw(RecordBatch({}, {}, "t", [bytes(964)]), queue.produce, lambda: None, queue.window, 964)
        found.append(queue.most)
    return found


def test_slow_deliveries_widen_it_up_to_a_batch_for_each_partition() -> None:
    slow = Queue(partitions=3, seconds=0.2)
    sizes = fill(slow, 4)
    assert [round(size / BATCH, 1) for size in sizes] == [0.9, 1.9, 2.9, 2.9]
    slow.seconds = 0.001
    assert [round(size / BATCH, 1) for size in fill(slow, 4)] == [2.9, 1.4, 0.9, 0.9]
    one = Queue(partitions=1, seconds=0.2)
    assert [round(size / BATCH, 1) for size in fill(one, 3)] == [0.9, 0.9, 0.9]


class Watched(TransactionalProducer):
    """Notes how many records it held at most."""

    most = 0

    def watch(self) -> "Watched":
        produce: Produce = self.produce

        def note(*arguments: object) -> None:
            produce(*arguments)
            Watched.most = max(Watched.most, self.queued)

        self.produce = note  # type: ignore[assignment]  # of fewer arguments, all of which it hands on
        return self


class Wide(Counting):
    """Its records are large."""

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(PARTITION, {"next": number + 1}, self.topic, b"%0*d" % (WIDTH, number))


@pytest.mark.broker
@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_task_waits_for_each_batch(broker: Broker, unique: Callable[[str], str], boundary: str) -> None:
    stage = Stage(Connection(broker.bootstrap), unique("window"))
    config = {
        "topic": stage.data,
        "transaction.boundary": boundary,
        "transaction.boundary.interval.ms": "1000",
        "producer.override.batch.size": str(BATCH),
    }
    Watched.most = 0

    def new_producer(spec: TaskSpec, timeout_ms: int) -> TaskClient:
        return Watched(spec.connection, spec.transactional_id, overrides={"batch.size": BATCH}).watch()

    try:
        stage.configure(config)
        stage.count()
        stage.start(Script(limit=10_000, batch=1000), config, kind=Wide, new_producer=new_producer)
        stage.wait_for(10_000)
        assert stage.exact(10_000) == 10_000
    finally:
        stage.close()
    assert 0 < Watched.most <= BATCH / WIDTH * MORE + 1, "and the record with the offsets"


def test_partitions_are_counted(broker: Broker, unique: Callable[[str], str]) -> None:
    names = [unique("window"), unique("window")]
    connection = Connection(broker.bootstrap)
    create_topics(
        connection, [TopicSpec(name, count) for name, count in zip(names, (2, 3), strict=True)], Deadline.after(30)
    )
    producer = TransactionalProducer(connection, names[0])
    try:
        assert producer.count_partitions(set(names)) == 5
        assert producer.count_partitions({"nothing-of-this-name"}) == 1
    finally:
        producer.close()
