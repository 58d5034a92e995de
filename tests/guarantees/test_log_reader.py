"""A `LogReader` returns what a client of librdkafka returns, and its position passes what that one passes."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple

import pytest
from confluent_kafka import Producer as PlainProducer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ringfence.connectors.api.fetching import Place
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, TopicLost
from ringfence.fencing.fetching.log_reader import LogReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, LogRecord, PartitionReader
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.fencing.kafka.topic_offsets import OffsetKind, end_offsets, offsets_at
from ringfence.fencing.transactions.producer import Producer
from tests.support.waiting import eventually

PARTITIONS = 3


@pytest.fixture
def topic(connection: Connection, unique: Callable[[str], str]) -> str:
    name = unique("log")
    create_topics(connection, [TopicSpec(name, PARTITIONS)], Deadline.after(20))
    return name


@pytest.fixture
def producer(connection: Connection, topic: str) -> Iterator[Producer]:
    one = Producer(connection, f"{topic}-id")
    one.init(Deadline.after(20))
    yield one
    one.close()


@pytest.fixture
def readers() -> Iterator[list[LogReader | PartitionReader]]:
    """Of the test, which are closed behind it."""
    every: list[LogReader | PartitionReader] = []
    yield every
    for each in every:
        each.close()


def transact(producer: Producer, topic: str, values: Sequence[bytes], *, commits: bool = True) -> None:
    producer.begin()
    for number, value in enumerate(values):
        producer.produce(topic, value, b"key-%d" % (number % 5), number % PARTITIONS)
    if commits:
        producer.commit(Deadline.after(20))
    else:
        producer.flush(20)
        producer.abort(Deadline.after(20))


def read_up_to(
    reader: LogReader | PartitionReader, ends: Mapping[int, int], limit: int = 1000, seconds: float = 20
) -> list[LogRecord]:
    records: list[LogRecord] = []
    deadline = Deadline.after(seconds)
    while any(reader.positions[p] < end for p, end in ends.items()):
        records += reader.poll(0.1, limit)
        assert not deadline.expired, (reader.positions, ends)
    return records


def read_some(reader: LogReader, count: int) -> list[LogRecord]:
    records: list[LogRecord] = []
    deadline = Deadline.after(20)
    while len(records) < count and not deadline.expired:
        records += reader.poll(0.1, 100)
    return records


def in_order(records: Sequence[LogRecord]) -> list[tuple[object, ...]]:
    """The records by partition; each in the order in which it was returned."""
    return [astuple(each) for each in sorted(records, key=lambda one: one.partition)]


@pytest.mark.broker
@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("limit", [1, 1000])
def test_both_clients_return_the_same(
    connection: Connection,
    topic: str,
    producer: Producer,
    readers: list[LogReader | PartitionReader],
    isolation: Isolation,
    limit: int,
) -> None:
    """Records of committed and aborted transactions and of none, with headers, of all codecs, and without values."""
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        transact(producer, topic, [b"committed-%d-%d" % (number, each) for each in range(20)])
        transact(producer, topic, [b"aborted-%d-%d" % (number, each) for each in range(20)], commits=False)
        plain = PlainProducer({"bootstrap.servers": connection.bootstrap, "compression.type": codec, "linger.ms": 50})
        for each in range(30):
            headers: list[tuple[str, str | bytes | None]] = [("codec", codec.encode()), ("none", None)]
            plain.produce(
                topic,
                None if each == 7 else b"plain-%d-" % each + bytes(200),
                None if each == 8 else b"k",
                each % PARTITIONS,
                headers=headers if each % 2 else [],
                timestamp=1_700_000_000_000 + each,
            )
        assert plain.flush(20) == 0
    ends = end_offsets(connection, topic, range(PARTITIONS), Deadline.after(20))
    eventually(lambda: offsets_at(connection, topic, range(PARTITIONS), OffsetKind.STABLE, Deadline.after(5)) == ends)
    start = {0: 0, 1: 3, 2: 11}
    ours = LogReader(connection, topic, start, isolation=isolation)
    theirs = PartitionReader(connection, topic, start, isolation=isolation, fetch_wait_ms=20)
    readers += [ours, theirs]
    records = read_up_to(ours, ends, limit)
    assert in_order(records) == in_order(read_up_to(theirs, ends, limit))
    assert ours.positions == ends == ours.ends()
    assert any(each.value is not None and each.value.startswith(b"aborted") for each in records) is (
        isolation is Isolation.UNCOMMITTED
    )


@pytest.mark.broker
def test_an_open_transaction_is_not_passed_before_its_end_is_known(
    connection: Connection, topic: str, producer: Producer, readers: list[LogReader | PartitionReader]
) -> None:
    transact(producer, topic, [b"before"] * PARTITIONS)
    producer.begin()
    producer.produce(topic, b"open", b"k", 0)
    producer.flush(20)
    plain = PlainProducer({"bootstrap.servers": connection.bootstrap})
    plain.produce(topic, b"behind it", b"k", 0)
    assert plain.flush(20) == 0
    reader = LogReader(connection, topic, dict.fromkeys(range(PARTITIONS), 0))
    readers.append(reader)
    stable = offsets_at(connection, topic, range(PARTITIONS), OffsetKind.STABLE, Deadline.after(5))
    assert {each.value for each in read_up_to(reader, stable)} == {b"before"}
    for _ in range(3):
        assert reader.poll(0.3, 100) == []
    assert reader.positions == stable
    assert reader.ends()[0] == stable[0] + 2
    producer.commit(Deadline.after(20))
    ends = end_offsets(connection, topic, range(PARTITIONS), Deadline.after(5))
    assert [each.value for each in read_up_to(reader, ends)] == [b"open", b"behind it"]


@pytest.mark.broker
def test_records_that_a_filter_leaves_out_move_the_position(
    connection: Connection, topic: str, producer: Producer, readers: list[LogReader | PartitionReader]
) -> None:
    transact(producer, topic, [b"v%d" % number for number in range(15)])
    reader = LogReader(connection, topic, dict.fromkeys(range(PARTITIONS), 0))
    readers.append(reader)
    records: list[LogRecord] = []
    ends = end_offsets(connection, topic, range(PARTITIONS), Deadline.after(5))
    deadline = Deadline.after(20)
    while reader.positions != ends and not deadline.expired:
        records += reader.poll(0.1, 100, lambda key: key == b"key-3")
    assert sorted(each.value or b"" for each in records) == [b"v13", b"v3", b"v8"]
    reader.move(dict.fromkeys(range(PARTITIONS), 0))
    assert len(read_up_to(reader, ends)) == 15, "after a move it reads from there, and what it still held is dropped"


@pytest.mark.broker
def test_a_position_that_the_log_has_lost_becomes_its_beginning(
    connection: Connection, topic: str, readers: list[LogReader | PartitionReader]
) -> None:
    plain = PlainProducer({"bootstrap.servers": connection.bootstrap})
    for number in range(6):
        plain.produce(topic, b"v%d" % number, b"k", 0)
    assert plain.flush(20) == 0
    admin = AdminClient({"bootstrap.servers": connection.bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0)].result(20)
    for start in (0, 99):
        reader = LogReader(connection, topic, {0: start, 1: 0})
        readers.append(reader)
        assert [each.value for each in read_some(reader, 2)] == [b"v4", b"v5"]
        assert reader.positions == {0: 6, 1: 0}


@pytest.mark.broker
def test_a_topic_that_was_created_again_is_not_read_on(
    connection: Connection, topic: str, readers: list[LogReader | PartitionReader]
) -> None:
    plain = PlainProducer({"bootstrap.servers": connection.bootstrap})
    plain.produce(topic, b"v", b"k", 0)
    assert plain.flush(20) == 0
    reader = LogReader(connection, topic, {0: 0})
    readers.append(reader)
    assert [each.value for each in read_up_to(reader, {0: 1})] == [b"v"]
    delete_topics(connection, [topic], Deadline.after(20))
    eventually(lambda: _try_to_create(connection, topic))
    with pytest.raises(TopicLost, match="created again"):
        poll_to_the_error(reader)


def poll_to_the_error(reader: LogReader) -> None:
    deadline = Deadline.after(20)
    while not deadline.expired:
        reader.poll(0.1, 100)


def _try_to_create(connection: Connection, topic: str) -> bool:
    try:
        create_topics(connection, [TopicSpec(topic, PARTITIONS)], Deadline.after(5))
    except Fatal:  # its deletion is not through yet
        return False
    return True


@pytest.mark.broker
def test_a_reader_that_another_thread_closes_ends_with_its_poll(connection: Connection, topic: str) -> None:
    reader = LogReader(connection, topic, {0: 0})
    polling = threading.Event()
    errors: list[Exception] = []

    def read() -> None:
        try:
            while True:
                polling.set()
                reader.poll(0.05, 100)
        except Fatal as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert polling.wait(20)
    reader.close()
    thread.join(20)
    assert not thread.is_alive()
    assert "closed already" in str(errors[0])


class Leader:
    """It returns nothing of any partition, and says up to where."""

    def __init__(self, empty_up_to: Mapping[Place, int]) -> None:
        self.empty_up_to = empty_up_to

    def poll_places(self, _seconds: float) -> list[object]:
        return []

    def close(self) -> None:
        pass


def test_the_rest_that_compaction_has_removed_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = LogReader(Connection("nowhere:1"), "t", {0: 3, 1: 5, 2: 7})
    monkeypatch.setattr(reader, "_fetcher", Leader({("t", 0): 9, ("t", 1): 4}))
    assert reader.poll(0.1, 100) == []
    assert reader.positions == {0: 9, 1: 5, 2: 7}


@pytest.mark.broker
def test_what_waits_in_a_full_queue_does_not_stop_the_client_for_a_second(
    connection: Connection, topic: str, readers: list[LogReader | PartitionReader]
) -> None:
    """The client keeps 4 MiB of each partition; by default, it then asks for no more for a second."""
    plain = PlainProducer({"bootstrap.servers": connection.bootstrap, "linger.ms": 50})
    for _ in range(1200):
        plain.produce(topic, bytes(60_000), b"k", 0)
        plain.poll(0)
    assert plain.flush(60) == 0
    reader = PartitionReader(connection, topic, {0: 0})
    readers.append(reader)
    assert reader.poll(20, 1)
    fruitless = 0
    while reader.positions[0] < 1200:
        time.sleep(0.3)  # who reads has other work, and the queue fills
        some = reader.positions[0] + 160
        while reader.positions[0] < min(1200, some) and reader.poll(0.4, 50):
            pass
        fruitless += reader.positions[0] < min(1200, some)
    assert fruitless <= 1
