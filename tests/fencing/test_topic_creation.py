"""Which rules a topic is created by, and which settings are refused."""

import pytest

from ringfence.connectors.common_settings import source_config_def
from ringfence.fencing.records.topic_creation import TopicCreationGroups

BASE = {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1"}
GROUPS = {
    **BASE,
    "topic.creation.default.cleanup.policy": "compact",
    "topic.creation.groups": "big, logs",
    "topic.creation.big.include": "big-.*",
    "topic.creation.big.exclude": "big-small",
    "topic.creation.big.partitions": "12",
    "topic.creation.logs.include": ".*log, big-small",
    "topic.creation.logs.retention.ms": "1000",
}


def errors(config: dict[str, str]) -> dict[str, list[str]]:
    full = {"name": "c", "connector.class": "x", **config}
    return {value.name: value.errors for value in source_config_def(full).validate(full) if value.errors}


def rules(config: dict[str, str], worker: dict[str, str] | None = None) -> TopicCreationGroups:
    found = TopicCreationGroups.of(config, worker or {})
    assert found is not None
    return found


def test_without_rules_the_broker_creates_topics() -> None:
    assert TopicCreationGroups.of({"topic": "a"}, {}) is None
    assert TopicCreationGroups.of(BASE, {"topic.creation.enable": "false"}) is None


def test_the_first_group_that_holds_a_topic_makes_it() -> None:
    made = {name: rules(GROUPS).spec(name) for name in ("big-1", "big-log", "big-small", "a-log", "other")}
    assert {name: (spec.partitions, spec.replication, spec.config) for name, spec in made.items()} == {
        "big-1": (12, -1, {}),
        "big-log": (12, -1, {}),
        "big-small": (3, -1, {"retention.ms": "1000"}),
        "a-log": (3, -1, {"retention.ms": "1000"}),
        "other": (3, -1, {"cleanup.policy": "compact"}),
    }


def test_good_rules_are_accepted() -> None:
    assert not errors(GROUPS)
    assert not errors({})


@pytest.mark.parametrize(
    ("config", "setting", "words"),
    [
        ({"topic.creation.default.partitions": "3"}, "topic.creation.default.replication.factor", "Missing required"),
        ({**BASE, "topic.creation.default.partitions": "0"}, "topic.creation.default.partitions", "at least 1, or -1"),
        ({**BASE, "topic.creation.groups": "a"}, "topic.creation.a.include", "Missing required"),
        ({**BASE, "topic.creation.a.include": "x"}, "topic.creation.a.include", "not listed in topic.creation.groups"),
        (
            {**BASE, "topic.creation.groups": "a", "topic.creation.a.include": "("},
            "topic.creation.a.include",
            "not a regular expression",
        ),
    ],
)
def test_bad_rules_are_refused(config: dict[str, str], setting: str, words: str) -> None:
    assert words in errors(config)[setting][0]
