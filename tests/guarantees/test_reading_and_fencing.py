"""The end of a topic (invariant 6), lives of a producer (invariant 11) and raw fencing, on the real broker."""

from collections.abc import Callable

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fenced, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from tests.support.waiting import eventually


@pytest.fixture
def topic(connection: Connection, unique: Callable[[str], str]) -> str:
    name = unique("data")
    create_topics(connection, [TopicSpec(name)], Deadline.after(20))
    return name


def producer_of(connection: Connection, topic: str) -> Producer:
    producer = Producer(connection, f"{topic}-id")
    producer.init(Deadline.after(20))
    return producer


def test_every_commit_is_seen_at_once_by_a_read_to_the_end(connection: Connection, topic: str) -> None:
    producer, log = producer_of(connection, topic), TopicLog(connection, topic)
    for number in range(100):
        producer.begin()
        producer.produce(topic, str(number).encode())
        producer.commit(Deadline.after(20))
        assert not producer.spent
        assert [record.value for record in log.read_to_end(Deadline.after(20))] == [str(number).encode()]
    log.close()
    producer.close()


def test_aborted_records_are_passed_and_never_seen(connection: Connection, topic: str) -> None:
    producer, log = producer_of(connection, topic), TopicLog(connection, topic)
    producer.begin()
    producer.produce(topic, b"aborted")
    assert producer.flush(20) == 0
    assert producer.abort(Deadline.after(20))
    assert not producer.spent
    assert list(log.read_to_end(Deadline.after(20))) == []
    assert log.positions[0] >= 1
    log.close()


def test_an_open_transaction_holds_the_end_back_and_the_message_says_so(connection: Connection, topic: str) -> None:
    producer, log = producer_of(connection, topic), TopicLog(connection, topic)
    producer.begin()
    producer.produce(topic, b"open")
    assert producer.flush(20) == 0

    def is_held_back() -> bool:
        """A busy broker may also not answer within the second."""
        with pytest.raises(Retriable) as late:
            list(log.read_to_end(Deadline.after(1)))
        return "still open" in str(late.value)

    eventually(is_held_back, 30, "the error that names the open transaction")
    producer.commit(Deadline.after(20))
    assert [record.value for record in log.read_to_end(Deadline.after(20))] == [b"open"]
    log.close()
    producer.close()


def test_a_second_life_fences_the_first_and_aborts_what_it_left_open(connection: Connection, topic: str) -> None:
    older = producer_of(connection, topic)
    older.begin()
    older.produce(topic, b"left open")
    assert older.flush(20) == 0
    newer = producer_of(connection, topic)
    assert newer.producer_id == older.producer_id
    assert newer.epoch > older.epoch
    with pytest.raises(Fenced):
        older.commit(Deadline.after(20))
    log = TopicLog(connection, topic)
    assert list(log.read_to_end(Deadline.after(20))) == []
    log.close()
    newer.close()


def test_a_fence_ends_the_holder_and_may_be_repeated(connection: Connection, topic: str) -> None:
    holder = producer_of(connection, topic)
    holder.begin()
    holder.produce(topic, b"too late")
    assert holder.flush(20) == 0
    with Fencer(connection) as fencer:
        (once,) = fencer.fence([f"{topic}-id"], Deadline.after(20))
        (twice,) = fencer.fence([f"{topic}-id"], Deadline.after(20))
    assert once.producer_id == holder.producer_id
    assert twice.epoch > once.epoch > holder.epoch
    with pytest.raises(Fenced):
        holder.commit(Deadline.after(20))
    log = TopicLog(connection, topic)
    assert list(log.read_to_end(Deadline.after(20))) == []
    log.close()


def test_a_thousand_ids_are_fenced_in_one_go(connection: Connection, topic: str) -> None:
    ids = [f"{topic}-{number}" for number in range(1000)]
    with Fencer(connection) as fencer:
        fenced = fencer.fence(ids, Deadline.after(60))
    assert [one.transactional_id for one in fenced] == ids
    assert all(one.producer_id >= 0 for one in fenced)
