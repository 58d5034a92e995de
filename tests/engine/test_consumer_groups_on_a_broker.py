"""Consumer groups on the real broker: both protocols, and the lag behind an open transaction with who holds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.queries.consumer_groups import describe, lag_of, list_all
from ringfence.engine.questions import DescribeConsumerGroup, ListConsumerGroups
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.client_pool import close_idle_clients
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.fencing.kafka.topic_offsets import Ends
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.waiting import eventually


@pytest.fixture
def worker(broker: Broker) -> Iterator[WorkerConfig]:
    yield WorkerConfig.from_environment({"CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap})
    close_idle_clients()


@contextmanager
def member(broker: Broker, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """Has read and committed three records."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "app",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        reader.subscribe([topic])
        for _ in range(3):
            message = eventually(lambda: reader.poll(1.0), 60, "a record", pause=0.0)
            assert message is not None
            assert message.error() is None
        reader.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
        yield reader
    finally:
        reader.close()


def test_lag_is_told_up_to_the_last_stable_offset_and_behind_it_with_the_transaction_that_holds_it(
    broker: Broker, worker: WorkerConfig
) -> None:
    topic, rules = unique("read"), TopicRules(worker)
    create_topics(Connection(broker.bootstrap), [TopicSpec(topic, 1, 1)], Deadline.after(60))
    holder = f"{topic}-holder"
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": holder})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, b"x")
    producer.commit_transaction(60)

    def ask(group: str) -> dict[str, Any]:
        return describe(DescribeConsumerGroup(group), worker, rules, Deadline.after(30))

    def numbers(group: str) -> tuple[int | None, ...]:
        (one,) = ask(group)["partitions"]
        return tuple(one[key] for key in ("committed", "stable", "end", "lag", "lag_to_end"))

    with member(broker, f"{topic}-a", topic, "classic"), member(broker, f"{topic}-b", topic, "consumer"):
        assert numbers(f"{topic}-a") == (3, 6, 6, 3, 3)  # five records and a marker
        producer.begin_transaction()
        for _ in range(4):
            producer.produce(topic, b"x")
        producer.flush(60)
        for group, protocol in ((f"{topic}-a", "classic"), (f"{topic}-b", "consumer")):
            found = ask(group)
            assert numbers(group) == (3, 6, 10, 3, 7)
            (one,) = found["partitions"]
            assert (one["holder"]["transactional_id"], one["holder"]["first_offset"]) == (holder, 6)
            assert one["holder"]["since_ms"] > 0
            (reader,) = found["members"]
            assert (reader["client"], reader["assigned"]) == ("app", [{"topic": topic, "partition": 0}])
            assert (found["state"], found["protocol"], one["member"]) == ("Stable", protocol, reader["member"])
        listed = list_all(ListConsumerGroups(topic), worker, rules, Deadline.after(30))
        assert [(each["group"], each["members"]) for each in listed["groups"]] == [
            (f"{topic}-a", 1),
            (f"{topic}-b", 1),
        ]
        assert listed["groups"][0]["topics"] == [{"topic": topic, "partitions": 1, "lag": 3, "lag_to_end": 7}]
        assert list_all(ListConsumerGroups(topic, "another"), worker, rules, Deadline.after(30))["groups"] == []
        producer.abort_transaction(60)
        assert eventually(lambda: numbers(f"{topic}-a") == (3, 11, 11, 8, 8), 30, "the marker")
        (one,) = ask(f"{topic}-a")["partitions"]
        assert one["holder"] is None
    found = ask(f"{topic}-a")
    assert (found["state"], found["members"]) == ("Empty", [])
    delete_topics(Connection(broker.bootstrap), [topic], Deadline.after(30))
    with pytest.raises(Refusal) as none:
        ask(f"{topic}-none")
    assert none.value.status == 404


def test_a_lag_without_a_commit_or_a_partition_is_not_known_and_never_negative() -> None:
    assert lag_of(None, Ends(5, 5)) == (None, None)
    assert lag_of(5, None) == (None, None)
    assert lag_of(9, Ends(5, 7)) == (0, 0)
