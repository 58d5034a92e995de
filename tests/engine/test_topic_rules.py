"""Which topics a configuration may name, as far as the configuration says so."""

from functools import reduce
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from ringfence.engine.browsing.records import last_records
from ringfence.engine.plugins import PluginHost
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.queries.dead_letters import DeadLetters
from ringfence.fencing.clock import SYSTEM_CLOCK, Deadline
from ringfence.fencing.errors import Invalid
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.task.task_offsets import TaskOffsets
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import ConfigRecord, ConnectorRecord
from ringfence.fencing.topics.topic_ids import Topics
from ringfence.requests.request import Refusal
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


@pytest.mark.parametrize("topic", ["connect-configs", "connect-offsets", "__consumer_offsets", "a-offsets"])
def test_no_records_of_an_internal_topic_are_shown(rules: TopicRules, topic: str) -> None:
    """Refused before any broker is asked: none answers at this address."""
    nowhere = WorkerConfig.from_environment({"CONNECT_BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    with pytest.raises(Refusal) as refused:
        last_records(topic, {"topic": topic}, nowhere, rules.access("b"), Deadline.after(0.5), committed_only=True)
    assert refused.value.status == 403
    letters = DeadLetters(Mock(PluginHost), nowhere, rules)
    with pytest.raises(Refusal) as refused:
        letters.page({"name": "b", DEAD_LETTERS: topic}, "", "", None, Deadline.after(0.5), committed_only=True)
    assert refused.value.status == 403


@pytest.mark.parametrize("topic", ["connect-configs", "connect-status", "__consumer_offsets"])
def test_a_task_keeps_no_offsets_in_an_internal_topic(topic: str) -> None:
    topics = Topics("connect-configs", "connect-offsets", "connect-status", "connect-events")
    spec = SimpleNamespace(connector_config={OWN: topic}, topics=topics)
    with pytest.raises(Invalid, match=topic):
        TaskOffsets(cast(TaskSpec, spec), SYSTEM_CLOCK)
