"""Encoded batches are in the producer's transaction: whole, once, in order, or not at all. Real brokers."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from kafka.partitioner.default import murmur2

from ringfence.connectors.api.records import EncodedBatch
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fatal, Fenced
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.transaction_descriptions import Transaction, TransactionProber
from ringfence.fencing.kafka.transactional_producer import TransactionalProducer
from tests.support.broker import Broker
from tests.support.encoded import encode, read_numbers
from tests.support.proxy import Api, Fate, Proxied
from tests.support.waiting import eventually


class Scene:
    """A topic of two partitions, one for offsets, and a producer."""

    def __init__(self, direct: Connection, name: str, through: Connection | None = None) -> None:
        self.direct = direct
        self.through = through or direct
        self.data, self.offsets, self.id = f"{name}-data", f"{name}-offsets", f"{name}-id"
        specs = [TopicSpec(self.data, partitions=2), TopicSpec(self.offsets)]
        create_topics(direct, specs, Deadline.after(30))
        self._producers: list[TransactionalProducer] = []

    def new_producer(self) -> TransactionalProducer:
        producer = TransactionalProducer(self.through, self.id, transaction_timeout_ms=20_000)
        self._producers.append(producer)
        producer.init(Deadline.after(30))
        return producer

    def batch(self, first: int, count: int, partition: int = 0) -> EncodedBatch:
        return encode([b"%d" % number for number in range(first, first + count)], self.data, partition)

    def send(self, producer: TransactionalProducer, *batches: EncodedBatch) -> None:
        producer.begin()
        producer.sender.send(batches, lambda: None)

    def commit(self, producer: TransactionalProducer) -> None:
        producer.produce(self.offsets, b"offset")
        producer.commit(Deadline.after(30))

    def visible(self) -> dict[int, list[int]]:
        """What a read_committed reader sees, by partition."""
        return read_numbers(self.direct, self.data, 2)

    def transaction(self) -> Transaction:
        with TransactionProber(self.direct) as prober:
            return prober.transactions([self.id], Deadline.after(30))[0]

    def close(self) -> None:
        for producer in self._producers:
            producer.close()


@pytest.fixture
def scene(broker: Broker, unique: Callable[[str], str]) -> Iterator[Scene]:
    made = Scene(Connection(broker.bootstrap), unique("sender"))
    yield made
    made.close()


@pytest.fixture
def behind(proxied: Proxied, unique: Callable[[str], str]) -> Iterator[Scene]:
    """Its producer's requests go through the proxy."""
    made = Scene(proxied.direct, unique("sender"), proxied.through)
    yield made
    made.close()


def test_transactions_are_whole_and_in_order(scene: Scene) -> None:
    producer = scene.new_producer()
    for number in range(5):
        scene.send(
            producer, scene.batch(number * 10, 3), scene.batch(number * 10, 4, 1), scene.batch(number * 10 + 3, 2)
        )
        producer.sender.send([scene.batch(number * 10 + 5, 5)], lambda: None)
        scene.commit(producer)
        assert not producer.spent, "a producer a transaction would be slow"
    wanted = [number * 10 + more for number in range(5) for more in range(10)]
    assert scene.visible() == {0: wanted, 1: [number for number in wanted if number % 10 < 4]}


def test_records_for_any_partition_come_to_one(scene: Scene) -> None:
    producer = scene.new_producer()
    scene.send(producer, *(scene.batch(number, 1, -1) for number in range(30)))
    scene.commit(producer)
    found = scene.visible()
    assert sorted(found[0] + found[1]) == list(range(30))
    assert found[0]
    assert found[1], "each of 30 batches by chance in the same one of two"
    assert found == {partition: sorted(values) for partition, values in found.items()}


def test_an_abort_ends_the_transaction_although_librdkafka_has_no_part_in_it(scene: Scene) -> None:
    producer = scene.new_producer()
    scene.send(producer, scene.batch(0, 3))
    producer.sender.flush(Deadline.after(30))
    assert scene.transaction().state == "Ongoing"
    assert producer.abort(Deadline.after(30))
    assert producer.spent
    eventually(lambda: scene.transaction().state == "CompleteAbort", 10, lambda: scene.transaction().state)
    assert scene.visible() == {0: [], 1: []}


def test_an_abort_ends_a_transaction_of_both(scene: Scene) -> None:
    producer = scene.new_producer()
    scene.send(producer, scene.batch(0, 3))
    producer.produce(scene.offsets, b"offset")
    assert producer.flush(30) == 0
    assert producer.abort(Deadline.after(30))
    eventually(lambda: scene.transaction().state == "CompleteAbort", 10, lambda: scene.transaction().state)
    new = scene.new_producer()
    scene.send(new, scene.batch(10, 3))
    scene.commit(new)
    assert scene.visible()[0] == [10, 11, 12]


def test_batches_without_an_offset_are_not_committed(scene: Scene) -> None:
    """librdkafka would say that the commit has succeeded, and send nothing."""
    producer = scene.new_producer()
    scene.send(producer, scene.batch(0, 3))
    with pytest.raises(Abortable, match="no source offset"):
        producer.commit(Deadline.after(30))
    producer.abort(Deadline.after(30))  # librdkafka refuses, as it knows of no transaction
    eventually(lambda: not scene.transaction().open, 10, "the end of the transaction")


def test_a_fenced_producer_adds_nothing(scene: Scene) -> None:
    old = scene.new_producer()
    scene.send(old, scene.batch(0, 3))
    old.sender.flush(Deadline.after(30))
    with Fencer(scene.direct) as fencer:
        fencer.fence([scene.id], Deadline.after(30))
    old.sender.send([scene.batch(3, 3)], lambda: None)
    with pytest.raises(Fenced):
        scene.commit(old)
    assert old.spent
    new = scene.new_producer()
    scene.send(new, scene.batch(10, 3))
    scene.commit(new)
    assert scene.visible()[0] == [10, 11, 12]


@pytest.mark.parametrize("settings, words", [({"max.message.bytes": "100"}, "MSG_SIZE_TOO_LARGE")])
def test_a_refused_batch_fails_the_commit(scene: Scene, settings: dict[str, str], words: str) -> None:
    scene.data += "-small"
    create_topics(scene.direct, [TopicSpec(scene.data, config=settings)], Deadline.after(30))
    producer = scene.new_producer()
    scene.send(producer, scene.batch(0, 100))
    with pytest.raises(Fatal, match=words):
        scene.commit(producer)
    assert producer.abort(Deadline.after(30))
    eventually(lambda: not scene.transaction().open, 10, "the end of the transaction")


def test_a_record_that_is_too_large_is_not_sent(scene: Scene) -> None:
    producer = scene.new_producer()
    producer.begin()
    with pytest.raises(Fatal, match="MSG_SIZE_TOO_LARGE"):
        producer.sender.send([encode([bytes(1_000_001)], scene.data)], lambda: None)


def test_a_partition_that_does_not_exist(scene: Scene) -> None:
    producer = scene.new_producer()
    scene.send(producer, scene.batch(0, 1, 7))
    with pytest.raises(Fatal, match=r"partition 7 of topic .* has 2"):
        producer.sender.flush(Deadline.after(30))


def test_partitions_are_counted_and_a_missing_topic_is_created(scene: Scene) -> None:
    producer = scene.new_producer()
    assert producer.sender.count_partitions(scene.data, lambda: None) == 2
    assert producer.sender.count_partitions(f"{scene.data}-new", lambda: None) == 1


@pytest.mark.thorough
def test_the_owner_may_leave_while_it_waits(behind: Scene, proxied: Proxied) -> None:
    producer = behind.new_producer()
    proxied.proxy.set_trap(lambda request: request.api == Api.PRODUCE, Fate.SILENCE, times=1000)
    behind.send(producer, behind.batch(0, 1))

    def leave() -> None:
        raise RuntimeError("superseded")

    with pytest.raises(RuntimeError, match="superseded"):
        producer.sender.send([behind.batch(1, 1)], leave)


@pytest.mark.parametrize("api", [Api.PRODUCE, Api.ADD_PARTITIONS])
@pytest.mark.parametrize("fate", [Fate.LOSE_ANSWER, Fate.HOLD, Fate.SILENCE])
def test_a_request_without_an_answer_is_repeated_and_counts_once(
    behind: Scene, proxied: Proxied, api: Api, fate: Fate
) -> None:
    producer = behind.new_producer()
    trap = proxied.proxy.set_trap(lambda request: request.api == api and request.names(behind.data), fate)
    behind.send(producer, behind.batch(0, 3), behind.batch(3, 3))
    behind.commit(producer)
    assert trap.caught
    assert producer.spent, "a late copy must find another epoch"
    assert behind.visible()[0] == list(range(6))


def test_a_late_copy_joins_no_later_transaction(behind: Scene, proxied: Proxied) -> None:
    """The first transaction is aborted while its records are on their way; they arrive amid the next one."""
    producer = behind.new_producer()
    trap = proxied.proxy.set_trap(
        lambda request: request.api == Api.PRODUCE and request.names(behind.data), Fate.HOLD, times=1000
    )
    behind.send(producer, behind.batch(0, 3))
    late = trap.wait()
    assert producer.abort(Deadline.after(30))
    trap.left = 0
    new = behind.new_producer()
    behind.send(new, behind.batch(10, 3))
    new.sender.flush(Deadline.after(30))
    proxied.proxy.deliver(late)
    behind.commit(new)
    assert behind.visible() == {0: [10, 11, 12], 1: []}


def test_closing_amid_a_request_ends_its_thread(behind: Scene, proxied: Proxied) -> None:
    producer = behind.new_producer()
    trap = proxied.proxy.set_trap(lambda request: request.api == Api.PRODUCE, Fate.SILENCE, times=1000)
    before = set(threading.enumerate())
    behind.send(producer, behind.batch(0, 1))
    trap.wait()
    (working,) = [one for one in threading.enumerate() if one not in before and one.name.startswith("batches")]
    producer.close()
    eventually(lambda: not working.is_alive(), 10, "the thread has ended")


def test_librdkafkas_partitions_are_added_together_with_the_batches(scene: Scene) -> None:
    producer = scene.new_producer()
    producer.begin()
    producer.sender.send([scene.batch(0, 1)], lambda: None, [(scene.offsets, b"key")])
    producer.sender.await_adding(lambda: None)
    assert scene.transaction().partitions == ((scene.data, 0), (scene.offsets, 0))
    scene.commit(producer)
    assert not producer.spent


def test_an_added_partition_is_the_one_that_librdkafka_writes_to(scene: Scene) -> None:
    """Else each transaction would have a partition without records, and librdkafka's request would hold up ours."""
    producer = scene.new_producer()
    keys = [b"%d" % number for number in range(20)]
    for key in keys:
        producer.begin()
        producer.sender.send([scene.batch(0, 1)], lambda: None, [(scene.data, key)])
        producer.sender.await_adding(lambda: None)
        added = {number for topic, number in scene.transaction().partitions if topic == scene.data}
        assert added == {0, (murmur2(key) & 0x7FFFFFFF) % 2}
        scene.commit(producer)
    seen = 0
    other = TransactionalProducer(scene.direct, f"{scene.id}-other")
    other.init(Deadline.after(30))
    other.begin()
    for key in keys:
        other.produce(scene.data, b"%d" % (murmur2(key) & 0x7FFFFFFF), key)
    other.commit(Deadline.after(30))
    other.close()
    for partition, numbers in scene.visible().items():
        seen += sum(number > 0 and number % 2 == partition for number in numbers)
        assert not [number for number in numbers if number > 0 and number % 2 != partition]
    assert seen == len(keys)


def test_an_abort_keeps_its_time_limit_where_no_broker_answers(behind: Scene, proxied: Proxied) -> None:
    behind.through = Connection(proxied.through.bootstrap)  # with Kafka's own request timeout
    producer = behind.new_producer()
    behind.send(producer, behind.batch(0, 1))
    producer.sender.flush(Deadline.after(30))
    trap = proxied.proxy.set_trap(lambda request: request.names(behind.id), Fate.SILENCE, times=1000)
    producer.sender.send([behind.batch(1, 1)], lambda: None)
    trap.wait()
    began = time.monotonic()
    assert not producer.abort(Deadline.after(1))
    assert time.monotonic() - began < 15, "a request without an answer would take 20 s"
