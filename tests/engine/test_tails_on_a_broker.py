"""Source offsets that several attempts of a process read together are those that each would read alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.source_offsets import (
    OffsetsSnapshot,
    SourceOffsets,
    encode_key,
    encode_value,
    read_offsets,
)
from ringfence.fencing.offsets.tails import TailRequest, read_tails
from ringfence.fencing.transactions.producer import Producer
from tests.support.broker import Broker

FIRST, SECOND = ConnectorName("first"), ConnectorName("second")
PARTITION = {"p": 1}


@pytest.fixture
def connection(broker: Broker) -> Connection:
    return Connection(broker.bootstrap)


@pytest.fixture
def topic(connection: Connection, unique: Callable[[str], str]) -> str:
    name = unique("tails")
    create_topics(connection, [TopicSpec(name, 3)], Deadline.after(30))
    return name


def transact(
    connection: Connection, topic: str, connector: ConnectorName, value: int, *, commit: bool = True
) -> Producer:
    """Write an offset in a transaction of its own."""
    producer = Producer(connection, f"{topic}-{connector}")
    producer.init(Deadline.after(30))
    producer.begin()
    producer.produce(topic, encode_value({"n": value}), encode_key(connector, PARTITION), 0)
    producer.flush(30)
    if commit:
        producer.commit(Deadline.after(30))
        producer.close()
        with Fencer(connection) as fencer:  # as each start does: it is answered once the commit's markers are written
            fencer.fence([producer.transactional_id], Deadline.after(30))
    return producer


def read_alone(connection: Connection, topic: str, connector: ConnectorName) -> SourceOffsets:
    return read_offsets(connection, topic, connector, Deadline.after(60), patience_s=10)


def read_together(connection: Connection, topic: str, *snapshots: OffsetsSnapshot) -> list[SourceOffsets | None]:
    limit = Deadline.after(60)
    return list(read_tails(connection, topic, [TailRequest(each, lambda: False, limit) for each in snapshots]))


def test_each_gets_what_was_committed_after_its_own_snapshot(connection: Connection, topic: str) -> None:
    transact(connection, topic, FIRST, 1)
    transact(connection, topic, SECOND, 1)
    early = read_alone(connection, topic, FIRST).snapshot()
    transact(connection, topic, FIRST, 2)
    transact(connection, topic, SECOND, 2)
    late = read_alone(connection, topic, SECOND).snapshot()
    # Its entries are newer than records that the other one still has to read.
    late = replace(late, entries=[(key, encode_value({"n": 3})) for key, _ in late.entries])
    first, second = read_together(connection, topic, early, late)
    assert first is not None
    assert second is not None
    assert first.offset(PARTITION) == {"n": 2}
    assert second.offset(PARTITION) == {"n": 3}
    assert (first.records_read > 0, second.records_read) == (True, 0)
    assert first.topic_id == early.topic_id


def test_an_open_transaction_of_another_holds_nobody_and_does_not_count(connection: Connection, topic: str) -> None:
    transact(connection, topic, FIRST, 1)
    snapshots = [read_alone(connection, topic, each).snapshot() for each in (FIRST, SECOND)]
    open_one = transact(connection, topic, SECOND, 7, commit=False)
    transact(connection, topic, FIRST, 2)
    first, second = read_together(connection, topic, *snapshots)
    assert first is not None
    assert second is not None
    assert first.offset(PARTITION) == {"n": 2}
    assert second.offset(PARTITION) is None
    open_one.close()


def test_a_snapshot_of_another_topic_helps_nobody(connection: Connection, topic: str) -> None:
    transact(connection, topic, FIRST, 1)
    good = read_alone(connection, topic, FIRST).snapshot()
    other = replace(good, connector=SECOND, topic_id="another")
    beyond = replace(good, positions={0: 1000, 1: 1000, 2: 1000})
    first, second, third = read_together(connection, topic, good, other, beyond)
    assert first is not None
    assert first.offset(PARTITION) == {"n": 1}
    assert second is third is None
    assert read_together(connection, topic, other) == [None]
