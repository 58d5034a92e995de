"""KafkaSource on the real broker: what is committed at the source is at the target once, and nothing else."""

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.guarantees.copies import Context, Copy, await_topic, committed, copy_settings, write
from tests.guarantees.stage import Stage
from tests.support.waiting import eventually


@pytest.fixture
def origin(stage: Stage) -> str:
    """A topic with three partitions and a setting of its own."""
    topic = f"{stage.data}-origin"
    create_topics(stage.connection, [TopicSpec(topic, 3, config={"max.message.bytes": "1048600"})], Deadline.after(30))
    await_topic(stage, topic, 3)
    return topic


@pytest.fixture
def settings(stage: Stage, origin: str) -> dict[str, str]:
    return copy_settings(stage, origin, batch_size="7")


@pytest.fixture
def connector(settings: Mapping[str, str]) -> Iterator[KafkaSourceConnector]:
    made = KafkaSourceConnector()
    made.context = Context()
    made.start(settings)
    yield made
    made.stop()


def begin(stage: Stage, connector: KafkaSourceConnector) -> dict[str, str]:
    """The one task's configuration, as the newest generation."""
    (config,) = connector.task_configs(1)
    stage.configure(config)
    stage.count()
    return config


@pytest.mark.parametrize("raw", [True, False], ids=["batches", "single records"])
def test_committed_records_arrive_once_and_whole_over_a_crash(
    stage: Stage, origin: str, connector: KafkaSourceConnector, raw: bool
) -> None:
    bootstrap, target = stage.connection.bootstrap, f"here.{origin}"
    write(bootstrap, origin, range(1, 60))
    write(bootstrap, origin, range(1000, 1030), commit=False)
    write(bootstrap, origin, range(60, 120))
    config = begin(stage, connector)
    died = Copy(stage, config, 1, raw=raw, die_at=9).ended()
    assert "the task dies here" in str(died.trace)
    partial = committed(bootstrap, target)
    assert 0 < len(partial) < 119
    second = Copy(stage, config, 2, raw=raw)
    write(bootstrap, origin, range(120, 150))
    eventually(lambda: len(committed(bootstrap, target)) >= 149, 60, "all records at the target", pause=0.2)
    second.end()
    assert committed(bootstrap, target) == committed(bootstrap, origin)
    assert len(committed(bootstrap, target)) == 149


def test_the_target_has_the_partitions_and_the_settings_of_the_source(
    stage: Stage, origin: str, connector: KafkaSourceConnector
) -> None:
    configs = connector.task_configs(2)
    assert [config["task.assigned.partitions"] for config in configs] == [
        f'[["{origin}",0],["{origin}",2]]',
        f'[["{origin}",1]]',
    ]
    target = connector._target
    await_topic(stage, f"here.{origin}", 3)
    assert target.configs([f"here.{origin}"]) == {f"here.{origin}": {"max.message.bytes": "1048600"}}
    connector._source.grow({origin: 5})
    await_topic(stage, origin, 5)
    connector.task_configs(2)
    await_topic(stage, f"here.{origin}", 5)


def test_a_new_topic_asks_for_other_tasks(stage: Stage, origin: str, settings: Mapping[str, str]) -> None:
    made, context = KafkaSourceConnector(), Context()
    made.context = context
    made.start({**settings, "topics": f"{origin}.*", "refresh.topics.interval.seconds": "1"})
    try:
        assert len(made.task_configs(10)) == 3
        assert not context.asked.wait(1.5)
        create_topics(stage.connection, [TopicSpec(f"{origin}-2")], Deadline.after(30))
        assert context.asked.wait(30)
        await_topic(stage, f"{origin}-2", 1)
        assert len(made.task_configs(10)) == 4
    finally:
        made.stop()


def copy_first(stage: Stage, origin: str, connector: KafkaSourceConnector) -> Mapping[str, str]:
    """Copy 30 records with a first attempt, which ends. Returns the connector's configuration."""
    bootstrap = stage.connection.bootstrap
    write(bootstrap, origin, range(1, 31))
    config = begin(stage, connector)
    first = Copy(stage, config, 1, raw=True)
    eventually(lambda: len(committed(bootstrap, f"here.{origin}")) >= 30, 60, "the first records", pause=0.2)
    first.end()
    return config


def test_an_expired_range_is_passed_over_and_said(
    stage: Stage, origin: str, connector: KafkaSourceConnector, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap, target = stage.connection.bootstrap, f"here.{origin}"
    config = copy_first(stage, origin, connector)
    write(bootstrap, origin, range(31, 61))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # 10 records and a marker of the first transaction, then 4 of the second one's.
    deleted = admin.delete_records([TopicPartition(origin, 0, 15)], request_timeout=10)
    assert all(one.result().low_watermark == 15 for one in deleted.values())
    second = Copy(stage, config, 2, raw=True)
    eventually(lambda: len(committed(bootstrap, target)) >= 56, 60, "the records that are left", pause=0.2)
    second.end()
    assert len(committed(bootstrap, target)) == 56
    assert "5 offsets from 10 on expired" in caplog.text


def test_a_topic_that_was_made_anew_fails_the_task(
    stage: Stage, origin: str, connector: KafkaSourceConnector, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap, target = stage.connection.bootstrap, f"here.{origin}"
    config = copy_first(stage, origin, connector)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for gone in admin.delete_topics([origin], operation_timeout=30).values():
        gone.result()
    eventually(lambda: origin not in connector._source.topics(), 30, "the end of the topic")
    create_topics(stage.connection, [TopicSpec(origin, 3)], Deadline.after(30))
    eventually(lambda: has_leaders(admin, origin), 30, "leaders of the new topic")
    failed = Copy(stage, config, 2, raw=True).ended()
    assert "it was truncated, or deleted and created again" in str(failed.trace)
    assert len(committed(bootstrap, target)) == 30


def has_leaders(admin: AdminClient, topic: str) -> bool:
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return bool(partitions) and all(each.leader >= 0 for each in partitions.values())


def test_reading_what_it_writes_itself_is_refused(settings: Mapping[str, str]) -> None:
    connector = KafkaSourceConnector()
    assert not connector.validate(settings)
    errors = connector.validate({**settings, "replication.policy.class": "identity"})
    assert "would read its own records" in errors["replication.policy.class"][0]


def test_a_cluster_that_does_not_answer_is_named(settings: Mapping[str, str]) -> None:
    away = {**settings, "source.cluster.bootstrap.servers": "127.0.0.1:1", "source.cluster.sasl.nonsense": "x"}
    errors = KafkaSourceConnector().validate(away)
    assert set(errors) == {"source.cluster.sasl.nonsense"}
    del away["source.cluster.sasl.nonsense"]
    errors = KafkaSourceConnector().validate(away)
    assert "Nothing listens at 127.0.0.1:1" in errors["source.cluster.bootstrap.servers"][0]
