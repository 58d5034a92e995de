"""Which topics, which names, which partitions, which offset: the decisions of KafkaSource, without a cluster."""

import pytest

from ringfence.connectors.api import ConfigDef, ConnectorError
from ringfence.connectors.builtin.kafka_source.cluster import source_settings, target_settings
from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.connectors.builtin.kafka_source.settings import CONFIG_DEF, IDENTITY, PREFIX
from ringfence.connectors.builtin.kafka_source.task import parse_offset
from ringfence.connectors.builtin.kafka_source.topics import (
    Names,
    Renaming,
    choose_topics,
    divide_partitions,
    starting_offset,
)
from ringfence.connectors.builtin.share_group.task import CONFIG_DEF as SHARE_GROUP

NOTHING = Names([])


def test_names_and_expressions_match_whole_names() -> None:
    wanted = Names(["orders", "log-.*", "a.b"])
    assert "orders" in wanted
    assert "log-7" in wanted
    assert "a.b" in wanted
    assert "orders2" not in wanted
    assert "my-log-7" not in wanted


def test_a_broken_expression_is_named() -> None:
    with pytest.raises(ValueError, match=r"'\(' is not a regular expression"):
        Names(["("])


def test_excluded_topics_are_left_out_even_where_they_match() -> None:
    found = {"b": 2, "a": 1, "__consumer_offsets": 50, "x-internal": 1}
    excluded = Names(["__.*", ".*-internal"])
    assert list(choose_topics(found, Names([".*"]), excluded, Renaming(IDENTITY, "s", ".")).items()) == [
        ("a", 1),
        ("b", 2),
    ]


def test_with_prefixes_its_own_output_is_not_read_again() -> None:
    renaming = Renaming(PREFIX, "eu", ".")
    assert renaming.target("orders") == "eu.orders"
    assert choose_topics({"orders": 1, "eu.orders": 1}, Names([".*"]), NOTHING, renaming) == {"orders": 1}
    assert Renaming(IDENTITY, "eu", ".").target("orders") == "orders"


def test_the_partitions_of_a_topic_are_spread_over_the_tasks() -> None:
    shares = divide_partitions({"b": 1, "a": 4}, 3)
    assert shares == [[("a", 0), ("a", 3)], [("a", 1), ("b", 0)], [("a", 2)]]
    assert divide_partitions({"a": 2}, 5) == [[("a", 0)], [("a", 1)]]
    assert divide_partitions({}, 5) == []


def test_it_goes_on_behind_the_last_record() -> None:
    assert starting_offset("p", 41, 0, 100) == (42, None)
    assert starting_offset("p", 99, 0, 100) == (100, None)
    assert starting_offset("p", None, 7, 100) == (7, None)


def test_an_expired_range_is_passed_over_and_said() -> None:
    offset, said = starting_offset("Partition 0 of topic t", 9, 15, 100)
    assert offset == 15
    assert said is not None
    assert "5 offsets from 10 on expired" in said


def test_a_partition_that_was_cut_short_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ends at offset 10, but was read up to 42 before.*reset its offsets"):
        starting_offset("p", 41, 0, 10)


@pytest.mark.parametrize("offset", [{"offset": -1}, {"offset": True}, {"position": 4}, {"offset": "4"}])
def test_a_foreign_offset_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(ConnectorError, match="no integer under 'offset'"):
        parse_offset(offset)
    partition = {"cluster": "source", "topic": "t", "partition": 0}
    with pytest.raises(ConnectorError, match="must have a non-negative integer"):
        KafkaSourceConnector().alter_offsets({}, [(partition, offset)])


@pytest.mark.parametrize(
    "partition", [{"cluster": "source", "topic": "t"}, {"topic": "t", "partition": 0}, {"cluster": "s", "partition": 0}]
)
def test_a_foreign_partition_is_refused(partition: dict[str, object]) -> None:
    with pytest.raises(ConnectorError, match="The partition"):
        KafkaSourceConnector().alter_offsets({}, [(partition, {"offset": 1})])
    assert KafkaSourceConnector().alter_offsets({}, [(partition, None)])


def test_the_names_of_mirror_makers_settings_are_understood() -> None:
    given = {
        "topics": "a",
        "source.cluster.bootstrap.servers": "s:1",
        "target.cluster.bootstrap.servers": "t:1",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    }
    assert not [error for value in CONFIG_DEF.validate(given) for error in value.errors]
    aliases = {**given, "source.cluster.alias": "here", "target.cluster.alias": "there"}
    for settings in (source_settings(aliases), target_settings(aliases)):
        assert not settings.errors
        assert not [name for name in settings.settings if "alias" in name]
    bad = CONFIG_DEF.validate({**given, "replication.policy.class": "my.Policy"})
    assert [value.name for value in bad if value.errors] == ["replication.policy.class"]


@pytest.mark.parametrize("definition", [CONFIG_DEF, SHARE_GROUP])
@pytest.mark.parametrize(
    ("given", "called"),
    [
        ({}, "source.jobs"),
        ({"source.cluster.alias": "eu"}, "eu.jobs"),
        ({"source.cluster.alias": "eu", "replication.policy.separator": "_"}, "eu_jobs"),
        ({"replication.policy.class": "identity"}, "jobs"),
        ({"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}, "jobs"),
        ({"replication.policy.class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"}, "source.jobs"),
    ],
)
def test_both_readers_call_topics_by_the_policy(definition: ConfigDef, given: dict[str, str], called: str) -> None:
    servers = {f"{side}.cluster.bootstrap.servers": "k:1" for side in ("source", "target")}
    parsed = definition.parse({"topics": "jobs", **servers, **given})
    assert Renaming.parse(parsed).target("jobs") == called
