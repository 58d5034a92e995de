"""KafkaSource in a consumer group: partitions move, members die, and every record is at the target once (KIP-447)."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.admin import KafkaAdminClient

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.kafka_source.cluster import Cluster
from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import TransactionProber
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.guarantees.copies import Context, Copy, await_topic, committed, copy_settings, write
from tests.guarantees.stage import Stage
from tests.support.broker import Broker, running_kafka
from tests.support.waiting import eventually


@pytest.fixture
def stages(broker: Broker, unique: Callable[[str], str]) -> Iterator[list[Stage]]:
    """Two tasks that know nothing of each other but the group."""
    made = [Stage(Connection(broker.bootstrap), unique("member")) for _ in range(2)]
    yield made
    for stage in made:
        stage.close()


@pytest.fixture
def origin(stages: list[Stage]) -> str:
    topic = f"{stages[0].data}-origin"
    create_topics(stages[0].connection, [TopicSpec(topic, 3)], Deadline.after(30))
    await_topic(stages[0], topic, 3)
    return topic


@pytest.fixture
def settings(stages: list[Stage], origin: str) -> dict[str, str]:
    return copy_settings(
        stages[0],
        origin,
        batch_size="7",
        assignment="group",
        source_consumer_group_id=f"{origin}-group",
        source_consumer_session_timeout_ms="6000",
    )


def task_config(config: Mapping[str, str]) -> dict[str, str]:
    connector = KafkaSourceConnector()
    connector.context = Context()
    connector.start(config)
    try:
        return connector.task_configs(1)[0]
    finally:
        connector.stop()


def ready(stage: Stage, config: Mapping[str, str]) -> None:
    stage.configure(config)
    stage.count()


def timeout_ms(stage: Stage) -> int:
    """The transaction timeout of the stage's task, as the coordinator knows it."""
    with TransactionProber(stage.connection) as prober:
        (found,) = prober.transactions([task_transactional_id(stage.group, stage.task)], Deadline.after(30))
    return found.timeout_ms


@pytest.mark.parametrize(
    "boundary",
    [{}, {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "400"}],
    ids=["poll", "interval"],
)
def test_partitions_move_and_a_member_dies(
    stages: list[Stage], origin: str, settings: dict[str, str], boundary: dict[str, str]
) -> None:
    bootstrap, target = stages[0].connection.bootstrap, f"here.{origin}"
    config = task_config({**settings, **boundary})
    for stage in stages:
        ready(stage, config)
    write(bootstrap, origin, range(1, 100))
    first = Copy(stages[0], config, 1)
    eventually(lambda: len(committed(bootstrap, target)) >= 30, 60, "records from the first member", pause=0.2)
    assert timeout_ms(stages[0]) == 6000, "the others wait for a lost member's transaction no longer than its session"
    second = Copy(stages[1], config, 1, die_at=4)  # joins: partitions are taken from the first
    written = 100

    def more() -> bool:
        """It dies in the midst of records: they go on coming until then."""
        nonlocal written
        write(bootstrap, origin, range(written, written + 60))
        written += 60
        return second.outcome is not None

    eventually(more, 90, "the second member's end")
    assert "the task dies here" in str(second.ended().trace)
    third = Copy(stages[1], config, 2)
    more()
    eventually(lambda: len(committed(bootstrap, target)) >= written - 1, 90, "all records at the target", pause=0.3)
    first.end()
    third.end()
    assert committed(bootstrap, target) == committed(bootstrap, origin)
    group = Cluster({"bootstrap.servers": bootstrap}).group_offsets(
        settings["source.consumer.group.id"], [(origin, number) for number in range(3)]
    )
    assert len(group) == 3
    for stage in stages:
        assert stage.offset() == 0, "the group's offsets stand in place of source offsets"


@pytest.mark.thorough
def test_a_group_is_read_while_its_coordinator_loads(tmp_path: Path) -> None:
    """The first question of a new cluster. In a process of its own: librdkafka has ended one that asked otherwise."""
    with running_kafka(tmp_path) as kafka:
        ask = (
            "from ringfence.connectors.builtin.kafka_source.cluster import Cluster; "
            f"print(Cluster({{'bootstrap.servers': '{kafka.bootstrap}'}}).group_offsets('g', [('t', 0), ('t', 1)]))"
        )
        asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60)
        assert (asked.returncode, asked.stdout) == (0, "{}\n"), asked.stderr


def test_offsets_that_a_transaction_holds_are_waited_for(stages: list[Stage], origin: str) -> None:
    bootstrap, group = stages[0].connection.bootstrap, f"{origin}-held"
    cluster = Cluster({"bootstrap.servers": bootstrap}, seconds=30)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(origin, 0, 7)], reader.consumer_group_metadata(), 30)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(cluster.group_offsets, group, [(origin, 0)])
        assert not wait([found], 2).done, "the offsets of an open transaction were not waited for"
        producer.commit_transaction(30)
        assert found.result(30) == {(origin, 0): 7}
    reader.close()


def test_a_switch_carries_the_offsets_over_or_is_refused(
    stages: list[Stage], origin: str, settings: dict[str, str]
) -> None:
    bootstrap, target, stage = stages[0].connection.bootstrap, f"here.{origin}", stages[0]
    write(bootstrap, origin, range(1, 60))
    static = task_config({**settings, "assignment": "static"})
    ready(stage, static)
    one = Copy(stage, static, 1)
    eventually(lambda: len(committed(bootstrap, target)) >= 59, 60, "the first records", pause=0.2)
    one.end()
    # To the group: it has no offsets of its own, so it goes on where the tasks were.
    grouped = task_config(settings)
    ready(stage, grouped)
    two = Copy(stage, grouped, 1)
    write(bootstrap, origin, range(60, 120))

    def lacking() -> str:
        return f"the group's records; the task says {stage.status()}, and ended with {two.outcome}"

    eventually(lambda: len(committed(bootstrap, target)) >= 119, 60, lacking, pause=0.2)
    two.end()
    assert committed(bootstrap, target) == committed(bootstrap, origin)
    # And back: the source offsets are old by now.
    ready(stage, static)
    trace = str(Copy(stage, static, 1).ended().trace)
    assert f"by consumer group {settings['source.consumer.group.id']}" in trace
    assert "set its offset to" in trace
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        deleted = admin.delete_groups([settings["source.consumer.group.id"]])
    finally:
        admin.close()
    assert deleted == {settings["source.consumer.group.id"]: "OK"}
    ready(stage, static)
    three = Copy(stage, static, 1)
    eventually(lambda: len(committed(bootstrap, target)) >= 179, 60, "the old records again", pause=0.2)
    three.end()


def test_without_transactions_it_is_refused(stages: list[Stage], origin: str, settings: dict[str, str]) -> None:
    config = task_config(settings)
    ready(stages[0], config)
    trace = str(Copy(stages[0], config, 1, mode="disabled").ended().trace)
    assert "exactly.once.source.support=enabled" in trace


def test_offsets_by_hand_are_the_groups(settings: dict[str, str]) -> None:
    partition = {"cluster": "here", "topic": "t", "partition": 0}
    with pytest.raises(ConnectorError, match="kafka-consumer-groups"):
        KafkaSourceConnector().alter_offsets(settings, [(partition, {"offset": 1})])
    assert KafkaSourceConnector().alter_offsets(settings, [(partition, None)])
    errors = KafkaSourceConnector().validate({**settings, "source.consumer.isolation.level": "read_uncommitted"})
    assert set(errors) == {"source.consumer.isolation.level"}
