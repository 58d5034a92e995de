"""Offsets are asked for in a way that does not end the process (`ringfence.fencing.kafka.topic_offsets`)."""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from ringfence.connectors.builtin.kafka_source.cluster import Cluster
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.fencing.kafka.topic_offsets import end_offsets, list_offsets
from ringfence.local.kafka import EmbeddedKafka
from tests.support.broker import Broker
from tests.support.waiting import eventually

ROOT = Path(__file__).parent.parent.parent
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

ENDS_THE_PROCESS = {
    "list_offsets": "ringfence.fencing.kafka.topic_offsets",
    "describe_consumer_groups": "ringfence.fencing.kafka.consumer_groups",
    "list_consumer_group_offsets": "ringfence.fencing.kafka.consumer_groups",
    "alter_consumer_group_offsets": "kafka-python",
    "delete_consumer_groups": "kafka-python",
}
"""Calls of confluent-kafka's AdminClient at which librdkafka 2.16.0 reads freed memory, and what to use instead."""

WITHOUT_BURSTS = {
    "fencing/kafka/topic_offsets.py",  # tells the client the leaders first
    "connectors/builtin/kafka_source/cluster.py",  # lists the topics first, and asks one question at a time
    "benchmarks/watch.py",
    "tests/guarantees/test_listed_offsets.py",
}


class Asked(AdminClient):
    """Remembers what reaches librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__({"bootstrap.servers": bootstrap})
        self.asked: list[str] = []

    def list_topics(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        self.asked.append("leaders")
        return super().list_topics(*args, **kwargs)

    def list_offsets(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        self.asked.append(f"offsets of {len(args[0])}")  # type: ignore[arg-type]
        return super().list_offsets(*args, **kwargs)  # type: ignore[arg-type]


def read_code(client: AdminClient, topic: str) -> int | None:
    """Return the error of partition 0, None if it was answered."""
    asked = {TopicPartition(topic, 0): LATEST}
    (answer,) = list_offsets(client, asked, IsolationLevel.READ_COMMITTED, 30).values()
    refused = answer.exception(30)
    assert refused is None or isinstance(refused, KafkaException)
    return refused.args[0].code() if refused else None


def test_librdkafka_is_asked_only_about_partitions_whose_leader_it_was_told(
    broker: Broker, unique: Callable[[str], str]
) -> None:
    connection, topic = Connection(broker.bootstrap), unique("listed")
    client = Asked(broker.bootstrap)
    assert read_code(client, topic) == KafkaError._NOENT
    assert client.asked == ["leaders"], "it was asked about an unknown topic"
    create_topics(connection, [TopicSpec(topic, 2)], Deadline.after(30))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"x", partition=1)
    producer.flush(30)
    client.asked.clear()
    asked = {TopicPartition(topic, number): LATEST for number in (0, 1, 7)}
    for _ in range(3):
        found = list_offsets(client, asked, IsolationLevel.READ_COMMITTED, 30)
        ends = {
            one.partition: None if answer.exception(30) else answer.result().offset for one, answer in found.items()
        }
        assert ends == {0: 0, 1: 1, 7: None}
    assert client.asked == ["leaders", "offsets of 2"] * 3, "a partition may have come since"
    client.asked.clear()
    del asked[TopicPartition(topic, 7)]
    for _ in range(3):
        list_offsets(client, asked, IsolationLevel.READ_COMMITTED, 30)
    assert client.asked == ["offsets of 2"] * 3, "it knows all leaders"
    delete_topics(connection, [topic], Deadline.after(30))

    def is_forgotten() -> bool:
        client.asked.clear()
        return read_code(client, topic) == KafkaError._NOENT and client.asked == ["leaders"]

    eventually(is_forgotten, 30, "it is asked no more about a topic that is gone")


def test_nobody_makes_a_call_at_which_librdkafka_ends_the_process() -> None:
    def calls(path: Path) -> Iterator[str]:
        text = path.read_text()
        if not any(name in text for name in ENDS_THE_PROCESS):
            return  # to parse them all takes a while
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(attr=name)) if name in ENDS_THE_PROCESS:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: use {ENDS_THE_PROCESS[name]}"

    roots = ("connectors", "fencing", "platform/ringfence", "benchmarks", "tools", "tests")
    files = [path for root in roots for path in (ROOT / root).rglob("*.py")]
    assert len(files) > 1000
    found = [each for path in files if str(path.relative_to(ROOT)) not in WITHOUT_BURSTS for each in calls(path)]
    assert found == []


_PROGRAM = """
import sys, threading, time
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from ringfence.fencing.kafka.topic_offsets import list_offsets

bootstrap, topic, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
until = time.monotonic() + seconds
def ask():
    while time.monotonic() < until:
        client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for turn in range(5):
            answers = []
            for number in range(20):
                name = topic if number % 2 else f"{topic}-{turn}-{number}"
                asked = {TopicPartition(name, each): OffsetSpec.latest() for each in range(6)}
                answers += list_offsets(client, asked, IsolationLevel.READ_COMMITTED, 10).values()
            for answer in answers:
                answer.exception(30)
threads = [threading.Thread(target=ask) for _ in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("whole")
"""


@pytest.mark.slow
def test_a_process_that_asks_in_bursts_survives(broker: Broker, unique: Callable[[str], str]) -> None:
    """By AdminClient.list_offsets itself, three of three such processes died after 5 to 13 s."""
    topic = unique("bursts")
    create_topics(Connection(broker.bootstrap), [TopicSpec(topic, 6)], Deadline.after(30))
    command = [sys.executable, "-X", "faulthandler", "-c", _PROGRAM, broker.bootstrap, topic, "45"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=150)
    assert (done.returncode, done.stdout.strip()) == (0, "whole"), done.stderr[-2000:]


@pytest.mark.thorough
def test_a_leader_of_several_that_does_not_answer_is_an_error(brokers: list[EmbeddedKafka]) -> None:
    """librdkafka returns -1001 for its partitions, and no error: a reader up to that end would read nothing."""
    connection = Connection(",".join(each.bootstrap for each in brokers))
    admin = AdminClient({"bootstrap.servers": connection.bootstrap})
    (created,) = admin.create_topics([NewTopic("spread", 2, replica_assignment=[[1, 2, 3], [2, 3, 1]])]).values()
    created.result(60)
    producer = Producer({"bootstrap.servers": connection.bootstrap, "acks": "all"})
    for partition in (0, 1):
        producer.produce("spread", b"x", partition=partition)
    assert producer.flush(60) == 0
    assert end_offsets(connection, "spread", [0, 1], Deadline.after(60)) == {0: 1, 1: 1}
    brokers[1].kill()
    with pytest.raises(Retriable):  # until another one leads, after nine seconds
        end_offsets(connection, "spread", [0, 1], Deadline.after(1))
    with pytest.raises(KafkaException, match="does not answer"):
        Cluster({"bootstrap.servers": connection.bootstrap}).bounds([("spread", 0), ("spread", 1)])
    assert end_offsets(connection, "spread", [0, 1], Deadline.after(120)) == {0: 1, 1: 1}
