"""More records than a librdkafka client queues are written all the same, in order, or are refused at the deadline."""

import time
from collections.abc import Callable

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.plain_producers import IdempotentProducer, PlainProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.ports import free_port
from tests.support.broker import Broker
from tests.support.waiting import eventually

RECORDS = [(b"%d" % number, bytes(60_000)) for number in range(200)]
"""12 MB, three times the queue of a plain producer."""


@pytest.fixture
def topic(broker: Broker, unique: Callable[[str], str]) -> str:
    name = unique("many")
    create_topics(Connection(broker.bootstrap), [TopicSpec(name)], Deadline.after(20))
    return name


def keys(broker: Broker, topic: str) -> list[bytes | None]:
    log = TopicLog(Connection(broker.bootstrap), topic)
    try:
        return [record.key for record in log.read_to_end(Deadline.after(30))]
    finally:
        log.close()


def produce_all(produce: Callable[..., None], topic: str) -> None:
    for key, value in RECORDS:
        produce(topic, value, key)


def test_a_plain_producer_writes_more_than_its_queue_holds(broker: Broker, topic: str) -> None:
    producer = PlainProducer(Connection(broker.bootstrap))
    try:
        producer.write(topic, RECORDS, Deadline.after(60))
    finally:
        producer.close()
    assert keys(broker, topic) == [key for key, _ in RECORDS]


def test_a_plain_producer_gives_up_at_the_deadline() -> None:
    producer = PlainProducer(Connection(f"127.0.0.1:{free_port()}"))
    began = time.monotonic()
    try:
        with pytest.raises(Retriable):
            producer.write("nowhere", RECORDS, Deadline.after(1.0))
    finally:
        producer.close()
    assert time.monotonic() - began < 15


def test_an_idempotent_producer_waits_for_room(broker: Broker, topic: str) -> None:
    done: list[FencingError | None] = []
    producer = IdempotentProducer(Connection(broker.bootstrap), {"queue.buffering.max.messages": 10})
    try:
        produce = producer.reporting(done.append, lambda: None)
        produce_all(produce, topic)

        def arrived() -> bool:
            producer.serve(0.05)
            return len(done) == len(RECORDS)

        eventually(arrived, 60, "the deliveries")
    finally:
        producer.close()
    assert set(done) == {None}
    assert keys(broker, topic) == [key for key, _ in RECORDS]


def test_an_idempotent_producer_gives_up_when_it_is_told() -> None:
    asked: list[int] = []

    def check() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise Fatal("enough")

    settings = {"queue.buffering.max.messages": 10}
    producer = IdempotentProducer(Connection(f"127.0.0.1:{free_port()}"), settings)
    try:
        produce = producer.reporting(lambda _: None, check)
        with pytest.raises(Fatal, match="enough"):
            produce_all(produce, "nowhere")
    finally:
        producer.close()
    assert len(asked) == 3
