"""A topic is read to its end: nothing of it is left out, whatever one answer of a leader has room for."""

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Producer as PlainProducer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ringfence.connectors.api.fetching import Place
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.fetching.raw_reader import Entry, PartitionFollower, RawReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.record_batches import Batch
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.topic_offsets import end_offsets
from ringfence.fencing.transactions.producer import Producer

PARTITIONS = 12


@pytest.fixture
def topic(connection: Connection, unique: Callable[[str], str]) -> str:
    name = unique("raw")
    create_topics(connection, [TopicSpec(name, PARTITIONS)], Deadline.after(20))
    return name


@pytest.mark.broker
def test_partitions_that_found_no_room_in_an_answer_are_read_to_their_ends(connection: Connection, topic: str) -> None:
    """Together they have three times what one answer may have, so most are empty in the first ones."""
    producer = PlainProducer({"bootstrap.servers": connection.bootstrap})
    for number in range(PARTITIONS * 40):
        producer.produce(topic, bytes(50_000), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0
    ends = end_offsets(connection, topic, range(PARTITIONS), Deadline.after(20))
    assert set(ends.values()) == {40}
    records: Counter[int] = Counter()
    with RawReader(connection, topic) as reader:

        def count(partition: int, batch: Batch) -> None:
            assert batch.first == records[partition], "in order, without a gap"
            records[partition] = batch.last + 1

        reader.read(dict.fromkeys(ends, 0), ends, Deadline.after(60), count)
        assert records == ends
        reader.read({0: 39, 1: 40}, ends, Deadline.after(20), lambda *batch: records.update([batch[0]]))
    assert records[0] > 40, "the batch that has the start"
    assert records[1] == 40


@pytest.mark.broker
def test_the_answer_to_the_reading_before_does_not_end_the_next_one(connection: Connection, topic: str) -> None:
    """The first one has its end while the leader is asked for what follows, and later answers: nothing."""
    producer = PlainProducer({"bootstrap.servers": connection.bootstrap, "linger.ms": 0})
    for _ in range(2):
        producer.produce(topic, b"v", partition=0)
        assert producer.flush(20) == 0
    offsets: list[int] = []
    with RawReader(connection, topic) as reader:
        for end in (1, 2):
            reader.read({0: 0}, {0: end}, Deadline.after(20), lambda _, batch: offsets.append(batch.last))
    assert offsets == [0, 0, 1]


class EmptyLog:
    """A leader that has nothing after the position, and says up to where."""

    def __init__(self, high_watermark: int) -> None:
        self.empty_up_to: dict[Place, int] = {}
        self._high_watermark = high_watermark
        self._places: set[Place] = set()

    def add(self, positions: Mapping[Place, int]) -> None:
        self._places |= positions.keys()

    def remove(self, places: list[Place]) -> None:
        self._places -= set(places)

    def poll_places(self, _seconds: float) -> list[object]:
        self.empty_up_to = dict.fromkeys(self._places, self._high_watermark)
        return []


def refuse(partition: int, batch: Batch) -> None:
    pytest.fail(f"there was {batch} in {partition}")


@pytest.mark.parametrize(("high_watermark", "ends"), [(9, True), (8, False)])
def test_the_rest_that_compaction_has_removed_is_not_waited_for(
    high_watermark: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = RawReader(Connection("nowhere:1"), "t")
    monkeypatch.setattr(reader, "_fetcher", EmptyLog(high_watermark))
    if ends:
        reader.read({0: 3}, {0: 9}, Deadline.after(20), refuse)
        return
    with pytest.raises(Retriable, match=r"could not be read to its end in time.*\{0: \(3, 9\)\}"):
        reader.read({0: 3}, {0: 9}, Deadline.after(0.1), refuse)


def poll_to_the_error(follower: PartitionFollower) -> None:
    deadline = Deadline.after(20)
    while not deadline.expired:
        follower.poll()


@pytest.mark.broker
def test_what_was_deleted_meanwhile_is_an_error(connection: Connection, topic: str) -> None:
    producer = PlainProducer({"bootstrap.servers": connection.bootstrap})
    for _ in range(5):
        producer.produce(topic, b"v", partition=0)
    assert producer.flush(20) == 0
    admin = AdminClient({"bootstrap.servers": connection.bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 3)])[TopicPartition(topic, 0)].result(20)
    with RawReader(connection, topic) as reader, pytest.raises(Retriable, match="truncated or created again"):
        reader.read({0: 0}, {0: 5}, Deadline.after(20), lambda *_: None)
    follower = PartitionFollower(connection, topic, 0, 0)
    try:
        with pytest.raises(Fatal, match="truncated or created again"):
            poll_to_the_error(follower)
    finally:
        follower.close()


@pytest.mark.broker
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_follower_returns_records_and_markers_of_every_codec(connection: Connection, topic: str, codec: str) -> None:
    producer = Producer(connection, f"follower-{topic}", overrides={"compression.type": codec})
    producer.init(Deadline.after(20))
    follower = PartitionFollower(connection, topic, 0, 1)
    entries: list[Entry] = []
    try:
        for aborts in (False, True):
            producer.begin()
            for number in range(3):
                producer.produce(topic, b"v%d" % number * 50, b"k%d" % number, 0)
            assert producer.flush(20) == 0
            if aborts:
                producer.abort(Deadline.after(20))
            else:
                producer.commit(Deadline.after(20))
        deadline = Deadline.after(20)
        while follower.position < 8 and not deadline.expired:
            entries += follower.poll()
    finally:
        follower.close()
        producer.close()
    records = [(each.offset, each.key, each.value) for each in entries if each.committed is None]
    expected = [(b"k%d" % number, b"v%d" % number * 50) for number in range(3)]
    assert records == [(1 + n, *each) for n, each in enumerate(expected[1:])] + [
        (4 + n, *each) for n, each in enumerate(expected)
    ]
    assert [(each.offset, each.committed) for each in entries if each.committed is not None] == [(3, True), (7, False)]
    assert {each.producer_id for each in entries} == {producer.producer_id}
