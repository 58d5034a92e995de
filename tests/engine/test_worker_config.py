"""Worker settings: Kafka Connect's keys from file and environment."""

from dataclasses import replace
from pathlib import Path

import pytest

from ringfence.engine.platform_topics import specs
from ringfence.fencing.errors import Invalid
from ringfence.fencing.topics.topic_ids import EVENTS
from ringfence.worker_config import WorkerConfig


def test_environment_variables_are_kafka_connects_and_overlay_the_file(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("# comment\ngroup.id = from-file\nbootstrap.servers=broker:9092\n")
    config = WorkerConfig.from_environment({"RINGFENCE_WORKER_CONFIG": str(file), "CONNECT_GROUP_ID": "from-env"})
    assert config.group_id == "from-env"
    assert config.bootstrap == "broker:9092"
    assert config.config_topic == "connect-configs"


def test_the_events_topic_follows_the_status_topic_where_it_has_no_settings() -> None:
    given = {"CONNECT_STATUS_STORAGE_REPLICATION_FACTOR": "1", "CONNECT_STATUS_STORAGE_PARTITIONS": "2"}
    followed = specs(WorkerConfig.from_environment(given))[EVENTS]
    assert (followed.replication, followed.partitions) == (1, 2)
    own = {**given, "CONNECT_EVENTS_STORAGE_REPLICATION_FACTOR": "3", "CONNECT_EVENTS_STORAGE_PARTITIONS": "7"}
    assert specs(WorkerConfig.from_environment(own))[EVENTS] == replace(followed, replication=3, partitions=7)


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT", "maybe", "exactly.once.source.support"),
        ("CONNECT_OFFSET_STORAGE_PARTITIONS", "many", "offset.storage.partitions"),
        ("CONNECT_AUTO_RESTART_ENABLED", "yes", "auto.restart.enabled=yes: use true or false"),
        ("CONNECT_AUTO_RESTART_MAX_ATTEMPTS", "-1", "auto.restart.max.attempts=-1: an integer"),
        ("CONNECT_SCHEDULED_REBALANCE_MAX_DELAY_MS", "-5", "scheduled.rebalance.max.delay.ms=-5: 0 or more"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_its_key(name: str, value: str, key: str) -> None:
    with pytest.raises(Invalid, match=key):
        WorkerConfig.from_environment({name: value})


def test_credentials_reach_the_connection_and_no_representation() -> None:
    config = WorkerConfig.from_environment(
        {"CONNECT_SASL_PASSWORD": "s3cret", "CONNECT_SECURITY_PROTOCOL": "SASL_SSL", "CONNECT_SASL_USERNAME": "ann"}
    )
    connection = config.connection()
    assert connection.librdkafka()["sasl.password"] == "s3cret"
    assert connection.kafka_python()["sasl_plain_password"] == "s3cret"
    assert "s3cret" not in repr(config) + repr(connection)
