"""The worker's view of its offsets topic: starts read only what came after it, whatever else the topic holds."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.fencing.offsets.source_offsets import SourceOffsets, encode_key, encode_value, read_offsets
from ringfence.fencing.offsets.view import OffsetsView
from ringfence.fencing.transactions.producer import Producer
from tests.support.broker import Broker
from tests.support.waiting import eventually

C = ConnectorName("mine")
PARTITION = {"p": 1}
FOREIGN = 200_000
Open = Callable[..., OffsetsView]


@pytest.fixture(scope="module")
def connection(broker: Broker) -> Connection:
    return Connection(broker.bootstrap)


def offset_records(connector: str, values: range) -> list[tuple[bytes, bytes | None]]:
    name = ConnectorName(connector)
    return [(encode_key(name, {"p": n % 500}), encode_value({"n": n})) for n in values]


def write(connection: Connection, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
    writer = PlainProducer(connection)
    writer.write(topic, records, Deadline.after(60))
    writer.close()


@pytest.fixture(scope="module")
def long_topic(connection: Connection) -> str:
    """Many records of others, and one of the connector."""
    name = f"long-offsets-{id(connection)}"
    create_topics(connection, [TopicSpec(name, 5)], Deadline.after(30))
    write(connection, name, [(encode_key(C, PARTITION), encode_value({"n": 1}))])
    for start in range(0, FOREIGN, 20_000):
        write(connection, name, offset_records(f"foreign-{start}", range(start, start + 20_000)))
    return name


@pytest.fixture
def view_of(connection: Connection) -> Iterator[Open]:
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def start(topic: str, max_bytes: int = 1 << 30) -> OffsetsView:
        view = OffsetsView(connection, topic, max_bytes)
        threads.append(threading.Thread(target=view.run, args=(stop,)))
        threads[-1].start()
        return view

    yield start
    stop.set()
    for thread in threads:
        thread.join(10)


def read(connection: Connection, topic: str, view: OffsetsView) -> SourceOffsets:
    known = view.snapshot(C)
    assert known is not None
    return read_offsets(connection, topic, C, Deadline.after(60), snapshots=[known])


def test_a_start_reads_nothing_of_what_the_view_has_read(
    connection: Connection, long_topic: str, view_of: Open
) -> None:
    view = view_of(long_topic)
    view.wait()
    assert view.whole
    found = read(connection, long_topic, view)
    assert found.offset(PARTITION) == {"n": 1}
    assert found.records_read == 0
    write(connection, long_topic, [(encode_key(C, PARTITION), encode_value({"n": 2}))])
    stale = view.snapshot(C)
    again = read(connection, long_topic, view)
    assert again.offset(PARTITION) == {"n": 2}
    assert again.records_read <= 1
    assert stale is not None
    eventually(lambda: (view.snapshot(C) or stale).entries[0][1] == encode_value({"n": 2}), 20, "the view follows")
    write(connection, long_topic, [(encode_key(C, PARTITION), encode_value({"n": 1}))])


def test_without_a_view_the_reading_tells_how_far_it_is(connection: Connection, long_topic: str) -> None:
    told: list[str] = []
    found = read_offsets(connection, long_topic, C, Deadline.after(60), report=told.append)
    assert found.offset(PARTITION) == {"n": 1}
    assert found.records_read > FOREIGN
    assert told[-1].startswith(f"{found.records_read:,} of {found.records_read:,} records")
    assert len(set(told)) > 3


def test_what_is_open_when_the_view_is_asked_is_read_by_the_start(
    connection: Connection, view_of: Open, unique: Callable[[str], str]
) -> None:
    """A snapshot ends before the first open transaction, and what is behind it is read after one's own init."""
    topic = unique("offsets")
    create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
    write(connection, topic, [(encode_key(C, PARTITION), encode_value({"n": 1}))])
    foreign = Producer(connection, f"{topic}-foreign")
    foreign.init(Deadline.after(20))
    foreign.begin()
    foreign.produce(topic, b"{}", encode_key(ConnectorName("other"), PARTITION), 0)
    assert foreign.flush(20) == 0
    mine = Producer(connection, f"{topic}-mine")
    mine.init(Deadline.after(20))
    mine.begin()
    mine.produce(topic, encode_value({"n": 2}), encode_key(C, PARTITION), 0)
    mine.commit(Deadline.after(20))
    mine.close()
    view = view_of(topic)
    view.wait()
    after = Producer(connection, f"{topic}-mine")
    after.init(Deadline.after(20))
    known = view.snapshot(C)
    assert known is not None
    assert known.positions == {0: 1}
    found = read_offsets(connection, topic, C, Deadline.after(60), snapshots=[known], patience_s=0)
    assert found.offset(PARTITION) == {"n": 2}
    foreign.close()
    after.close()


def test_a_topic_that_was_made_anew_has_nothing_to_do_with_the_old_one(
    connection: Connection, view_of: Open, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ringfence.fencing.offsets.view._LOOK_SECONDS", 0.5)
    topic = unique("offsets")
    create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
    write(connection, topic, offset_records(C, range(100)))
    view = view_of(topic)
    view.wait()
    old = view.snapshot(C)
    assert old is not None
    assert len(old.entries) == 100
    delete_topics(connection, [topic], Deadline.after(30))

    def made() -> bool:
        return bool(create_topics(connection, [TopicSpec(topic)], Deadline.after(30)))

    eventually(made, 30)
    write(connection, topic, offset_records(C, range(7)))
    found = read_offsets(connection, topic, C, Deadline.after(60), snapshots=[old])
    assert len(found.own()) == 7
    eventually(lambda: len((view.snapshot(C) or old).entries) == 7, 60, "the view reads the new topic")


def test_a_connector_too_large_for_the_bound_takes_nothing_from_others(
    connection: Connection, long_topic: str, view_of: Open
) -> None:
    view = view_of(long_topic, max_bytes=100_000)
    view.wait()
    assert view.whole
    assert view.snapshot(ConnectorName("foreign-0")) is None
    snapshot = view.snapshot(C)
    assert snapshot is not None
    assert len(snapshot.entries) == 1


def test_small_transactions_are_read_in_few_responses(connection: Connection) -> None:
    """As often as the reader says, however often something is committed."""
    topic = f"small-transactions-{id(connection)}"
    create_topics(connection, [TopicSpec(topic, 1)], Deadline.after(30))
    producer = Producer(connection, f"{topic}-writer")
    producer.init(Deadline.after(60))
    gather_ms = 500
    reader = PartitionReader(connection, topic, {0: 0}, gather_ms=gather_ms)
    written = threading.Event()

    def write_all() -> None:
        for number in range(100):
            producer.begin()
            producer.produce(topic, b"%d" % number, None, 0)
            producer.commit(Deadline.after(60))
        written.set()

    writer = threading.Thread(target=write_all, daemon=True)
    began = time.monotonic()
    try:
        writer.start()
        responses, values = 0, list[bytes | None]()
        until = Deadline.after(60)
        while len(values) < 100 and not until.expired:
            records = reader.poll(2.0, 1000)
            responses += bool(records)
            values += [record.value for record in records]
        seconds = time.monotonic() - began
    finally:
        writer.join(60)
        reader.close()
        producer.close()
    assert written.is_set()
    assert values == [b"%d" % number for number in range(100)]
    # One more for what is there at the start, and at the end. A response may reach the client in two parts.
    assert responses <= 2 * (seconds * 1000 / gather_ms + 2)
