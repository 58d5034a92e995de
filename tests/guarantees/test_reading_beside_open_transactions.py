"""Nobody's open transaction holds a reading (invariant 6): what is committed beside it is read, and nothing else."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.fetching.log_reader import LogReader
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.partitioner import partition_of
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.topics import topic_log
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.config_records import ConnectorRecord, encode
from ringfence.fencing.topics.topic_log import LogRecord, TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from tests.support.waiting import eventually

NOBODYS = 987_654_321
Begin = Callable[[str], Producer]


@pytest.fixture
def topic(connection: Connection, unique: Callable[[str], str]) -> str:
    name = unique("offsets")
    create_topics(connection, [TopicSpec(name)], Deadline.after(20))
    return name


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Producers of the test, by the topic that their ids are named after."""
    made: list[Producer] = []

    def producer(connection: Connection, name: str, **overrides: object) -> Producer:
        one = Producer(connection, name, overrides=overrides)
        one.init(Deadline.after(20))
        made.append(one)
        return one

    yield producer  # type: ignore[misc]
    for one in made:
        one.close()


def left_open(producer: Producer, topic: str, value: bytes = b"foreign") -> None:
    producer.begin()
    producer.produce(topic, value, value, 0)
    assert producer.flush(20) == 0


def commit(producer: Producer, topic: str, value: bytes) -> None:
    producer.begin()
    producer.produce(topic, value, value, 0)
    producer.commit(Deadline.after(20))


def abort(producer: Producer, topic: str, value: bytes) -> None:
    left_open(producer, topic, value)
    producer.abort(Deadline.after(20))


def read(connection: Connection, topic: str, own: int = -1) -> list[bytes | None]:
    log = TopicLog(connection, topic)
    try:
        caught = list(log.catch_up(Deadline.after(20), own=own))
        return [record.value for record in [*caught, *log.ahead]]
    finally:
        log.close()


def test_committed_records_beside_a_foreign_open_transaction_are_read_and_no_others(
    connection: Connection, topic: str, begin: Callable[..., Producer]
) -> None:
    commit(begin(connection, f"{topic}-mine"), topic, b"before")
    begin(connection, f"{topic}-mine")  # returns when the marker is written
    foreign = begin(connection, f"{topic}-foreign")
    left_open(foreign, topic)
    commit(begin(connection, f"{topic}-mine"), topic, b"after")
    abort(begin(connection, f"{topic}-mine"), topic, b"aborted")
    PlainProducer(connection).write(topic, [(b"plain", b"plain")], Deadline.after(20))
    left_open(begin(connection, f"{topic}-fenced"), topic, b"fenced")
    with Fencer(connection) as fencer:
        fencer.fence([f"{topic}-fenced", f"{topic}-mine"], Deadline.after(20))
    assert offsets_at(connection, topic, [0], OffsetKind.STABLE, Deadline.after(20))[0] == 2, (
        "the foreign one is not open"
    )
    assert read(connection, topic) == [b"before", b"after", b"plain"]
    foreign.commit(Deadline.after(20))
    begin(connection, f"{topic}-foreign")
    assert read(connection, topic) == [b"before", b"foreign", b"after", b"plain"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read_beside_an_open_transaction(
    connection: Connection, topic: str, begin: Callable[..., Producer], codec: str
) -> None:
    left_open(begin(connection, f"{topic}-foreign"), topic)
    mine = begin(connection, f"{topic}-mine", **{"compression.type": codec})
    values = [b"%d" % number + b"x" * 200 for number in range(50)]
    mine.begin()
    for value in values:
        mine.produce(topic, value, value, 0)
    mine.commit(Deadline.after(20))
    begin(connection, f"{topic}-mine")
    assert read(connection, topic) == values


def test_ones_own_commits_are_awaited_where_their_markers_are_on_their_way(
    connection: Connection, topic: str, begin: Callable[..., Producer]
) -> None:
    left_open(begin(connection, f"{topic}-foreign"), topic)
    mine = begin(connection, f"{topic}-mine")
    for number in range(60):
        commit(mine, topic, b"%d" % number)
        assert not mine.spent
        assert read(connection, topic, own=mine.producer_id)[-1] == b"%d" % number


def test_whoever_follows_gets_what_stands_ahead_again_and_in_order(
    connection: Connection, topic: str, begin: Callable[..., Producer]
) -> None:
    foreign = begin(connection, f"{topic}-foreign")
    left_open(foreign, topic)
    commit(begin(connection, f"{topic}-mine"), topic, b"mine")
    begin(connection, f"{topic}-mine")
    log = TopicLog(connection, topic)
    assert list(log.catch_up(Deadline.after(20))) == []
    assert [record.value for record in log.ahead] == [b"mine"]
    assert log.positions == {0: 0}
    foreign.commit(Deadline.after(20))
    followed: list[bytes | None] = []

    def both() -> bool:
        followed.extend(record.value for record in log.poll(0.2))
        return len(followed) == 2

    eventually(both)
    assert followed == [b"foreign", b"mine"]
    log.close()


def test_what_is_only_shown_of_what_stands_ahead_has_a_limit(
    connection: Connection, topic: str, begin: Callable[..., Producer]
) -> None:
    """Anybody may keep a transaction open in the offsets topic, and write beside it."""
    foreign = begin(connection, f"{topic}-foreign")
    left_open(foreign, topic)
    writer = PlainProducer(connection)
    for number in range(20):
        writer.write(topic, [(b"%d" % number, b"x" * 500_000)], Deadline.after(60))
    writer.close()
    log = TopicLog(connection, topic)

    def shown(most: int | None) -> int:
        eventually(lambda: log.follow(0.2, shown_bytes=most) == [] and bool(log.ahead), 20, "what stands ahead")
        return len(log.ahead)

    assert 2 <= shown(1_000_000) < 20
    log.close()
    log = TopicLog(connection, topic)
    assert shown(None) == 20
    log.close()


def test_the_config_topic_is_folded_in_order_whatever_is_open_on_it(
    connection: Connection, topic: str, begin: Callable[..., Producer]
) -> None:
    """A record that is committed late does not replace a newer one that was read before it."""
    name = ConnectorName("c")

    def write(producer: Producer, version: str) -> None:
        producer.begin()
        key, value = encode(ConnectorRecord(name, {"v": version}))
        producer.produce(topic, value, key, 0)
        assert producer.flush(20) == 0

    def version(log: ConfigLog) -> str:
        return (log.state.connector(name).config or {})["v"]

    stale, leader = begin(connection, f"{topic}-stale"), begin(connection, f"{topic}-leader")
    write(stale, "stale")
    write(leader, "new")
    leader.commit(Deadline.after(20))
    log = ConfigLog(connection, topic)
    log.refresh(Deadline.after(20), own=leader.producer_id)
    assert version(log) == "new"
    assert log.position == 0
    stale.commit(Deadline.after(20))
    eventually(lambda: log.poll(0.2) or log.position == 4)
    assert version(log) == "new"
    log.close()


def test_whoever_follows_the_config_topic_is_held_by_nobody(
    connection: Connection, topic: str, begin: Callable[..., Producer]
) -> None:
    """A worker that waits for placements, and a task that waits for news of a pause: `follow` is what both do."""
    name = ConnectorName("c")
    foreign, leader = begin(connection, f"{topic}-foreign"), begin(connection, f"{topic}-leader")

    def write(producer: Producer, version: str) -> None:
        producer.begin()
        key, value = encode(ConnectorRecord(name, {"v": version}))
        producer.produce(topic, value, key, 0)
        assert producer.flush(20) == 0

    write(leader, "1")
    leader.commit(Deadline.after(20))
    log = ConfigLog(connection, topic)
    log.refresh(Deadline.after(20), own=leader.producer_id)
    left_open(foreign, topic)

    def version() -> str:
        log.poll(0.2)
        return (log.state.connector(name).config or {})["v"]

    for number in ("2", "3"):
        write(leader, number)
        leader.commit(Deadline.after(20))
        eventually(lambda number=number: version() == number, 20)  # type: ignore[misc]
        assert log.position == 2, "it was not held: this has shown nothing"
    foreign.abort(Deadline.after(20))
    eventually(lambda: log.poll(0.2) or log.position > 6, 20)
    assert version() == "3"
    log.close()


def test_whoever_is_behind_is_not_held(
    connection: Connection, topic: str, begin: Callable[..., Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long topic, partitions are read in turns: one that waits for its turn stands still, too."""
    monkeypatch.setattr(topic_log, "_HELD_SECONDS", 0.0)
    PlainProducer(connection).write(topic, [(b"%d" % n, b"v") for n in range(2000)], Deadline.after(20))
    log = TopicLog(connection, topic)

    def never(*_args: object, **_more: object) -> Iterator[LogRecord]:
        raise AssertionError("it is read anew")

    log.catch_up = never  # type: ignore[method-assign]
    found = 0

    def whole() -> bool:
        nonlocal found
        found += len(log.follow(0.2, 50))
        return found == 2000

    eventually(whole, 30, "all records")
    log.close()


def test_what_was_read_in_vain_comes_again(connection: Connection, topic: str, begin: Callable[..., Producer]) -> None:
    """A reading that does not reach the end in time has taken nothing: the next one begins where it began."""
    leader = begin(connection, f"{topic}-leader")
    leader.begin()
    for number in range(3):
        key, value = encode(ConnectorRecord(ConnectorName(f"c{number}"), {"v": "1"}))
        leader.produce(topic, value, key, 0)
    leader.commit(Deadline.after(20))
    begin(connection, f"{topic}-leader")
    log = ConfigLog(connection, topic)
    real = log._log.catch_up

    def in_vain(*args: object, **more: object) -> Iterator[LogRecord]:
        yield from real(*args, **more)  # type: ignore[arg-type]
        raise Retriable("not in time")

    log._log.catch_up = in_vain  # type: ignore[method-assign]
    with pytest.raises(Retriable):
        log.refresh(Deadline.after(20))
    log._log.catch_up = real  # type: ignore[method-assign]
    assert len(log.refresh(Deadline.after(20)).connectors) == 3
    log.close()


@pytest.mark.parametrize("partitions", [1, 3, 25])
def test_a_key_is_looked_for_where_producers_put_it(
    connection: Connection, topic: str, unique: Callable[[str], str], partitions: int
) -> None:
    many = unique("many")
    create_topics(connection, [TopicSpec(many, partitions)], Deadline.after(20))
    keys = [b"", b"k", *(f'["c",{{"file":"{number}é"}}]'.encode() for number in range(40))]
    PlainProducer(connection).write(many, [(key, b"v") for key in keys], Deadline.after(20))
    log = TopicLog(connection, many)
    found = {record.key: record.partition for record in log.catch_up(Deadline.after(20))}
    log.close()
    assert found == {key: partition_of(key, partitions) for key in keys}


def hang(where: str, topic: str) -> None:
    """A transactional batch straight to the partition, without a word to any coordinator (KIP-664)."""
    batch = DefaultRecordBatchBuilder(2, 0, 1, NOBODYS, 0, 0, 1000)
    batch.append(0, int(time.time() * 1000), b"hangs", b"hangs", [])
    partition = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=bytes(batch.build()))
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
        max_version=11,
    )
    admin = KafkaAdminClient(bootstrap_servers=where)

    async def send() -> int:
        answer = await admin._manager.send(request)
        return int(answer.responses[0].partition_responses[0].error_code)

    try:
        assert admin._manager.run(send) == 0
    finally:
        admin.close()


@pytest.mark.thorough
def test_a_hanging_transaction_holds_nobody_also_after_the_broker_was_killed(
    trusting: EmbeddedKafka, unique: Callable[[str], str], begin: Callable[..., Producer]
) -> None:
    where, topic = Connection(trusting.bootstrap), unique("offsets")
    create_topics(where, [TopicSpec(topic)], Deadline.after(20))
    commit(begin(where, f"{topic}-mine"), topic, b"before")
    hang(trusting.bootstrap, topic)
    commit(begin(where, f"{topic}-mine"), topic, b"after")
    begin(where, f"{topic}-mine")
    assert read(where, topic) == [b"before", b"after"]
    trusting.kill()
    trusting.start()
    commit(begin(where, f"{topic}-mine"), topic, b"later")
    begin(where, f"{topic}-mine")
    assert read(where, topic) == [b"before", b"after", b"later"]


def test_a_compacted_topic_with_an_open_transaction_is_read_whole(
    trusting: EmbeddedKafka, unique: Callable[[str], str], begin: Callable[..., Producer]
) -> None:
    """Compaction takes aborted records, superseded ones and the markers of emptied transactions: below the LSO."""
    where, topic = Connection(trusting.bootstrap), unique("offsets")
    settings = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
    settings |= {"cleanup.policy": "compact", "segment.ms": "100"}
    create_topics(where, [TopicSpec(topic, config=settings)], Deadline.after(20))
    mine = begin(where, f"{topic}-mine")
    for number in range(40):
        mine.begin()
        mine.produce(topic, b"%d" % number, b"k%d" % (number % 4), 0)
        mine.commit(Deadline.after(20))
    left_open(mine, topic, b"aborted")
    mine.abort(Deadline.after(20))
    last = {f"k{number % 4}".encode(): b"%d" % number for number in range(40)}

    def compacted() -> bool:
        time.sleep(0.15)
        commit(begin(where, f"{topic}-roll"), topic, b"roll")
        log = TopicLog(where, topic)
        found = [record.value for record in log.read_to_end(Deadline.after(20)) if record.value != b"roll"]
        log.close()
        return found == list(last.values())

    eventually(compacted, 60)
    left_open(begin(where, f"{topic}-foreign"), topic)
    commit(begin(where, f"{topic}-mine"), topic, b"after")
    begin(where, f"{topic}-mine")
    assert [value for value in read(where, topic) if value != b"roll"] == [*last.values(), b"after"]


def test_an_end_that_cannot_be_reached_in_time_is_an_error_with_a_remedy(connection: Connection, topic: str) -> None:
    PlainProducer(connection).write(topic, [(b"k", b"v")], Deadline.after(20))
    log = TopicLog(connection, topic)

    def is_late() -> bool:
        """A busy broker may also not answer in time."""
        with pytest.raises(Retriable) as late:
            list(log.catch_up(Deadline.after(0), ends={0: 1}))
        return re.search(r"not reached in time.*compacted", str(late.value)) is not None

    eventually(is_late, 30, "the error with the remedy")
    log.close()


def test_a_log_that_catches_up_again_opens_one_reader_and_sees_everything(
    connection: Connection,
    topic: str,
    begin: Callable[[Connection, str], Producer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[LogReader] = []

    def count(*args: Any, **options: Any) -> LogReader:
        opened.append(LogReader(*args, **options))
        return opened[-1]

    monkeypatch.setattr(topic_log, "LogReader", count)
    log = TopicLog(connection, topic, keep_reader=True)
    try:
        for number in range(8):
            aborted = begin(connection, f"{topic}-aborted-{number}")
            aborted.begin()
            aborted.produce(topic, b"aborted", b"k", 0)
            aborted.flush(10)
            aborted.abort(Deadline.after(10))
            writer = begin(connection, f"{topic}-{number}")
            writer.begin()
            writer.produce(topic, str(number).encode(), b"k", 0)
            writer.commit(Deadline.after(10))
            read = list(log.catch_up(Deadline.after(20), own=writer.producer_id))
            assert [record.value for record in (*read, *log.ahead)][-1] == str(number).encode()
            assert b"aborted" not in [record.value for record in read]
    finally:
        log.close()
    own = [reader for reader in opened if reader is log._reader]
    assert len(own) == 1
    assert len(opened) <= 2, "of the log, and of a tail that was read raw because a marker was late"
