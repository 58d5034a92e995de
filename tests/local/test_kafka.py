"""The embedded broker keeps its data, and says clearly what is in its way."""

import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ringfence.local.errors import LocalError
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port
from tests.support.broker import Broker, new_kafka


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)


def cluster_id(bootstrap: str) -> str:
    return str(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).cluster_id)


def write(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writer-of-{topic}"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(60)


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() or b"" for message in consumer.consume(count, timeout=90)]
    finally:
        consumer.close()


def test_a_started_broker_takes_a_topic_and_a_transaction_at_once(broker: Broker) -> None:
    create_topic(broker.bootstrap, "at-once")
    write(broker.bootstrap, "at-once", b"1", b"2")
    assert read(broker.bootstrap, "at-once", 2) == [b"1", b"2"]


@pytest.mark.thorough
def test_what_was_fenced_at_the_end_is_not_fenced_again_and_nothing_is_lost(own_broker: EmbeddedKafka) -> None:
    create_topic(own_broker.bootstrap, "fenced")
    write(own_broker.bootstrap, "fenced", b"before the end")
    own_broker.kill()
    assert own_broker.must_fence()
    own_broker.fence_ended()
    assert not own_broker.must_fence()
    told = own_broker.log.read_bytes().count(b"Fencing broker 1 ")
    own_broker.start()
    assert own_broker.must_fence(), "this life is not fenced: it may be killed"
    assert own_broker.log.read_bytes().count(b"Fencing broker 1 ") == told
    assert read(own_broker.bootstrap, "fenced", 1) == [b"before the end"]


@pytest.mark.slow
def test_committed_data_port_and_cluster_survive_a_stop_and_kills(own_broker: EmbeddedKafka) -> None:
    create_topic(own_broker.bootstrap, "kept")
    cluster = cluster_id(own_broker.bootstrap)
    write(own_broker.bootstrap, "kept", b"before the stop")
    own_broker.stop()
    assert not own_broker.running
    own_broker.start()
    written = [b"before the stop"]
    # More than one round: whether a commit marker gets lost on the way is a race.
    for word in (b"before the kill", b"before the next", b"before the last"):
        write(own_broker.bootstrap, "kept", word)
        own_broker.kill()
        own_broker.start()
        written.append(word)
        assert read(own_broker.bootstrap, "kept", len(written)) == written
    assert cluster_id(own_broker.bootstrap) == cluster


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    kafka = new_kafka(tmp_path)
    with (
        socket.create_server(("127.0.0.1", kafka.port)),
        pytest.raises(LocalError, match=f"Port {kafka.port} is in use"),
    ):
        kafka.start()


def new(root: Path, **properties: str) -> EmbeddedKafka:
    return EmbeddedKafka(root / "new", free_port(), root / "log", properties=properties, short_lived=True)


@pytest.mark.broker
def test_a_broker_that_ends_at_once_says_why(tmp_path: Path) -> None:
    kafka = new_kafka(tmp_path, log_retention_ms="never")
    with pytest.raises(LocalError, match=r"ended with code.*log\.retention\.ms"):
        kafka.start()


@pytest.mark.broker
def test_storage_that_cannot_be_formatted_says_why(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"could not be formatted.*log\.retention\.ms"):
        new(tmp_path, **{"log.retention.ms": "never"}).start()


@pytest.mark.broker
def test_brokers_of_tests_begin_with_what_kafkas_tool_writes(tmp_path: Path) -> None:
    theirs, ours = new(tmp_path), new_kafka(tmp_path)
    theirs.launch()
    theirs.kill()

    def measure_meta(kafka: EmbeddedKafka) -> dict[str, int]:
        """The length of each value: ids differ."""
        lines = (kafka.data / "logs" / "meta.properties").read_text().splitlines()
        return {name: len(value) for name, _, value in (line.partition("=") for line in lines) if name[0] != "#"}

    def measure_features(kafka: EmbeddedKafka) -> int:
        return len((kafka.data / "logs" / "bootstrap.checkpoint").read_bytes())

    assert {path.name for path in (ours.data / "logs").iterdir()} == {"meta.properties", "bootstrap.checkpoint"}
    assert measure_meta(ours) == measure_meta(theirs)
    assert measure_features(ours) == measure_features(theirs)
