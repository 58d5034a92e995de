"""What a count record keeps of a connector's settings, and how old tasks are reached by them."""

import json

import pytest

from ringfence.fencing.errors import Invalid
from ringfence.fencing.ids import Generation
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.leader.fence_targets import list_admin_access, place_of
from ringfence.fencing.leader.fencing_round import finish, plan
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, TaskCountRecord, encode
from tests.support.cluster_states import C, fold, tasks

BASE = Connection("home:9092", {"security.protocol": "SASL_SSL", "sasl.username": "worker", "sasl.password": "w"})
AWAY = {"producer.override.bootstrap.servers": "away:9092"}


def login(name: str, secret: str = "s3cret") -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {"admin.override.sasl.jaas.config": f'{module} required username="{name}" password="{secret}";'}


def names(target: dict[str, str] | None, config: dict[str, str] | None) -> list[tuple[str, str, str]]:
    """Bootstrap, user and whose of each way."""
    return [
        (way.connection.bootstrap, way.connection.settings.get("sasl.username", ""), way.whose.split("'")[0])
        for way in list_admin_access(target, config, BASE, {})
    ]


def test_the_count_keeps_the_overrides_of_its_generation_as_they_were_written() -> None:
    config = {"topic": "t", "offsets.storage.topic": "mine", **AWAY, "admin.override.sasl.password": "${file:/x:y}"}
    state = fold([ConnectorRecord(C, config), *tasks(2)])
    due = plan(state.connector(C), "g")
    assert due is not None
    after = fold(finish(due, state), state).connector(C)
    assert after.count is not None
    assert after.count.target == {name: value for name, value in config.items() if name != "topic"}
    newer = fold([ConnectorRecord(C, {"topic": "t"}), *tasks(1)], fold(finish(due, state), state))
    again = plan(newer.connector(C), "g")
    assert again is not None
    assert (again.target, again.writes) == (after.count.target, {})


def test_a_deleted_connectors_count_keeps_no_secret() -> None:
    config = {"offsets.storage.topic": "mine", **AWAY, **login("ann")}
    state = fold([ConnectorRecord(C, config), *tasks(1), TaskCountRecord(C, 1, Generation(2), config)])
    deleted = fold([CommitRecord(C, 0), ConnectorRecord(C, None)], state)
    due = plan(deleted.connector(C), "g")
    assert due is not None
    assert due.target == config
    written = finish(due, deleted)
    assert "s3cret" not in json.dumps([str(encode(record)) for record in written])
    assert place_of(due.target) == place_of(due.writes) == {"offsets.storage.topic": "mine", **AWAY}


def test_old_tasks_are_fenced_where_they_write_and_as_who_they_were() -> None:
    assert names({**AWAY, **login("ann")}, {}) == [("away:9092", "ann", "the old generation")]
    assert names({}, AWAY)[0] == ("home:9092", "worker", "the old generation")


def test_newer_credentials_follow_where_they_lead_to_the_same_cluster() -> None:
    found = names({**AWAY, **login("ann")}, {**AWAY, **login("bob")})
    assert found == [("away:9092", "ann", "the old generation"), ("away:9092", "bob", "the newest configuration")]
    assert [user for _, user, _ in names({**AWAY, **login("ann")}, login("bob"))] == ["ann"]


def test_the_workers_credentials_come_last_and_go_nowhere_else() -> None:
    assert [user for _, user, _ in names(login("ann"), login("bob"))] == ["ann", "bob", "worker"]
    assert [user for _, user, _ in names(login("ann"), None)] == ["ann", "worker"]
    assert names({}, {}) == [("home:9092", "worker", "the old generation")]
    assert "worker" not in [user for _, user, _ in names({**AWAY, **login("ann")}, None)]


def test_the_newest_configuration_stands_in_where_kafka_connect_wrote_the_count() -> None:
    assert names(None, {**AWAY, **login("bob")}) == [("away:9092", "bob", "the old generation")]
    assert names(None, None) == [("home:9092", "worker", "the old generation")]


def test_settings_that_cannot_be_used_lead_on_or_are_named() -> None:
    broken = {"admin.override.nonsense": "1"}
    assert names(broken, {}) == [("home:9092", "worker", "the newest configuration")]
    with pytest.raises(Invalid, match=r"admin\.override\.nonsense"):
        list_admin_access({**AWAY, **broken}, None, BASE, {})


def test_no_secret_is_shown() -> None:
    assert "s3cret" not in repr(list_admin_access(login("ann"), None, BASE, {}))
    state = fold([ConnectorRecord(C, login("ann")), *tasks(1)])
    assert "s3cret" not in repr(plan(state.connector(C), "g"))
