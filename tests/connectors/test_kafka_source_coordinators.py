"""The offsets of a consumer group are read although its coordinator changes."""

from typing import ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ringfence.connectors.builtin.kafka_source import cluster


class Moving:
    """A consumer whose group's coordinator changes before it answers."""

    answers: ClassVar[list[int]] = []

    def __init__(self, _settings: object) -> None:
        pass

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        if self.answers:
            raise KafkaException(KafkaError(self.answers.pop(0)))
        return [TopicPartition(one.topic, one.partition, 7) for one in partitions]

    def close(self) -> None:
        pass


def test_offsets_are_asked_for_again_while_the_groups_coordinator_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "Consumer", Moving)
    asked = cluster.Cluster({"bootstrap.servers": "127.0.0.1:1"}, seconds=30)
    Moving.answers = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
    assert asked.group_offsets("g", [("t", 0)]) == {("t", 0): 7}
    Moving.answers = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaException):
        asked.group_offsets("g", [("t", 0)])


def test_a_coordinator_that_keeps_changing_is_not_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "Consumer", Moving)
    Moving.answers = [KafkaError.NOT_COORDINATOR] * 1000
    with pytest.raises(KafkaException):
        cluster.Cluster({"bootstrap.servers": "127.0.0.1:1"}, seconds=0.5).group_offsets("g", [("t", 0)])
