"""Which topics a configuration may name, as far as the configuration says so."""

from functools import reduce

import pytest

from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import ConfigRecord, ConnectorRecord
from ringfence.worker_config import WorkerConfig

OWN, DEAD_LETTERS = "offsets.storage.topic", "errors.deadletterqueue.topic.name"
OTHERS: list[ConfigRecord] = [
    ConnectorRecord(ConnectorName("a"), {"topic": "a-data", OWN: "a-offsets", DEAD_LETTERS: "a-letters"}),
    ConnectorRecord(ConnectorName("gone"), {"topic": "gone-data"}),
    ConnectorRecord(ConnectorName("gone"), None),
]


@pytest.fixture
def rules() -> TopicRules:
    state = reduce(lambda state, record: apply(state, state.end, record), OTHERS, ClusterState())
    return TopicRules(WorkerConfig.from_environment({}), lambda: state, lambda: {ConnectorName("a"): {"a-routed"}})


@pytest.mark.parametrize("key", ["topic", DEAD_LETTERS])
@pytest.mark.parametrize("topic", ["connect-configs", "connect-offsets", "__x", "a-offsets", "fine, connect-status"])
def test_internal_topics_are_no_target(rules: TopicRules, key: str, topic: str) -> None:
    assert list(rules.errors_of({"name": "b", key: topic})) == [key]
    assert rules.errors_of({"name": "b", key: "a-data"}) == {}


@pytest.mark.parametrize("topic", ["__x", "a-data", "a-letters", "a-routed", "mine"])
def test_an_offsets_topic_holds_no_records(rules: TopicRules, topic: str) -> None:
    """Else whoever names one closes it to the connector that writes there."""
    assert list(rules.errors_of({"name": "b", OWN: topic, DEAD_LETTERS: "mine"})) == [OWN]


@pytest.mark.parametrize("topic", ["connect-offsets", "a-offsets", "gone-data", "new"])
def test_an_offsets_topic_may_be_shared(rules: TopicRules, topic: str) -> None:
    assert rules.errors_of({"name": "b", "topic": "t", OWN: topic}) == {}
