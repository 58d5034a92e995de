"""What validation says about client overrides."""

from typing import Any

import pytest

from ringfence.engine.preflight.client_overrides import add_to, errors_of, warnings_of
from ringfence.fencing.errors import Invalid
from ringfence.worker_config import WorkerConfig

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="s3cret";'
PREFIX = "org.apache.kafka.connect.connector.policy."


def worker(policy: str = "All", **settings: str) -> WorkerConfig:
    return WorkerConfig.from_environment(
        {
            "CONNECT_BOOTSTRAP_SERVERS": "one:9092,two:9092",
            "CONNECT_CONNECTOR_CLIENT_CONFIG_OVERRIDE_POLICY": policy,
            **settings,
        }
    )


@pytest.mark.parametrize(
    ("policy", "key", "value", "allowed"),
    [
        ("All", "producer.override.linger.ms", "5", True),
        ("Principal", "producer.override.linger.ms", "5", False),
        ("Principal", "producer.override.sasl.mechanism", "PLAIN", True),
        ("Principal", "admin.override.sasl.jaas.config", JAAS, True),
        ("Principal", "consumer.override.security.protocol", "SASL_SSL", True),
        ("None", "consumer.override.security.protocol", "SASL_SSL", False),
        (f"{PREFIX}NoneConnectorClientConfigOverridePolicy", "admin.override.client.id", "x", False),
        (f"{PREFIX}AllConnectorClientConfigOverridePolicy", "admin.override.client.id", "x", True),
    ],
)
def test_the_policy_decides_what_may_be_overridden(policy: str, key: str, value: str, allowed: bool) -> None:
    errors = errors_of({key: value}, worker(policy))
    assert (errors == {}) is allowed
    assert allowed or "policy does not allow" in errors[key][0]


def test_an_unknown_policy_stops_the_worker() -> None:
    with pytest.raises(Invalid, match=r"connector\.client\.config\.override\.policy"):
        worker("Some")


@pytest.mark.parametrize("key", ["producer.override.bootstrap.servers", "offsets.storage.topic"])
def test_no_placeholder_may_say_where(key: str) -> None:
    errors = errors_of({key: "${file:/etc/x:where}"}, worker())
    assert "placeholder" in errors[key][0]
    assert len(errors[key]) == 1


def test_another_cluster_is_the_producers_choice_and_the_others_follow() -> None:
    assert errors_of({"producer.override.bootstrap.servers": "three:9092"}, worker()) == {}
    assert errors_of({"producer.override.bootstrap.servers": "two:9092, one:9092"}, worker()) == {}
    for role in ("admin", "consumer"):
        errors = errors_of({f"{role}.override.bootstrap.servers": "three:9092"}, worker())
        assert "another cluster" in errors[f"{role}.override.bootstrap.servers"][0]


def test_an_offsets_topic_of_its_own_needs_a_name_that_nothing_else_has() -> None:
    assert errors_of({"offsets.storage.topic": "mine", "topic": "data"}, worker()) == {}
    for refused in ("no such name", "..", "connect-status", "data"):
        found = errors_of({"offsets.storage.topic": refused, "topic": "data"}, worker())
        assert found.keys() == {"offsets.storage.topic"}, refused
    assert errors_of({"offsets.storage.topic": worker().offsets_topic}, worker()) == {}


def test_what_is_ignored_is_said_for_worker_and_connector() -> None:
    config = {"consumer.override.isolation.level": "read_uncommitted"}
    found = warnings_of(config, worker(CONNECT_PRODUCER_TRANSACTIONAL_ID="mine"))
    assert sorted(found) == ["consumer.override.isolation.level", "producer.transactional.id"]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("CONNECT_PRODUCER_BOOTSTRAP_SERVERS", "three:9092", "another cluster"),
        ("CONNECT_PRODUCER_NONSENSE", "1", r"producer\.nonsense"),
        ("CONNECT_CONSUMER_FETCH_MIN_BYTES", "no", r"consumer\.fetch\.min\.bytes"),
        ("CONNECT_SASL_JAAS_CONFIG", "s3cret", r"sasl\.jaas\.config"),
        ("CONNECT_SSL_TRUSTSTORE_LOCATION", "/etc/x.jks", "PEM"),
    ],
)
def test_client_settings_of_the_worker_that_cannot_be_meant_stop_it(name: str, value: str, says: str) -> None:
    with pytest.raises(Invalid, match=says) as raised:
        worker(**{name: value})
    assert "s3cret" not in str(raised.value)


def test_the_workers_java_login_reaches_its_connection() -> None:
    config = worker(CONNECT_SASL_JAAS_CONFIG=JAAS, CONNECT_SASL_MECHANISM="PLAIN")
    assert config.connection().librdkafka()["sasl.password"] == "s3cret"


def test_validation_shows_each_override_as_a_setting_and_hides_secrets() -> None:
    config: dict[str, str | None] = {
        "name": "c",
        "producer.override.sasl.jaas.config": JAAS,
        "producer.override.nonsense": "1",
        "admin.override.client.id": None,
    }
    validation: dict[str, Any] = {"name": "x", "error_count": 0, "groups": ["Common"], "configs": []}
    found = add_to(validation, config, worker())
    assert found["error_count"] == 1
    assert found["groups"] == ["Common", "Producer overrides"]
    by_name = {entry["value"]["name"]: entry for entry in found["configs"]}
    assert set(by_name) == {"producer.override.sasl.jaas.config", "producer.override.nonsense"}
    assert "Unknown configuration" in by_name["producer.override.nonsense"]["value"]["errors"][0]
    assert by_name["producer.override.sasl.jaas.config"]["definition"]["type"] == "PASSWORD"
    assert "s3cret" not in repr(found)


def test_what_is_ignored_is_in_the_log_of_the_worker_and_of_each_validation(caplog: pytest.LogCaptureFixture) -> None:
    config = worker(CONNECT_CONSUMER_ISOLATION_LEVEL="read_uncommitted", CONNECT_PRODUCER_TRANSACTIONAL_ID="mine")
    said = "consumer.isolation.level is ignored and cannot be overridden: it is always read_committed."
    assert said in caplog.messages
    assert any(text.startswith("producer.transactional.id is ignored") for text in caplog.messages)
    caplog.clear()
    validation: dict[str, Any] = {"name": "x", "error_count": 0, "groups": [], "configs": []}
    found = add_to(validation, {"name": "c", "producer.override.transactional.id": "mine"}, config)
    assert found["error_count"] == 0
    assert f"Connector c: {said}" in caplog.messages
    assert any("producer.override.transactional.id is ignored" in text for text in caplog.messages)


def test_fewer_acks_than_all_are_for_modes_without_transactions() -> None:
    config = {"producer.override.acks": "1"}
    found = errors_of(config, worker(CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT="enabled"))
    assert "a transactional producer needs all" in found["producer.override.acks"][0]
    assert errors_of(config, worker(CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT="disabled")) == {}


def test_a_worker_with_transactions_does_not_start_with_fewer_acks_than_all() -> None:
    assert worker(CONNECT_PRODUCER_ACKS="1").mode == "disabled"
    with pytest.raises(Invalid, match="acks=1: a transactional producer needs all"):
        worker(CONNECT_PRODUCER_ACKS="1", CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT="enabled")


def test_the_worker_says_how_long_a_transaction_may_be_open() -> None:
    timeout, interval = "producer.override.transaction.timeout.ms", "transaction.boundary.interval.ms"
    enabled = worker(
        CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT="enabled", CONNECT_CONNECTOR_TRANSACTION_TIMEOUT_MAX_MS="90000"
    )
    (text,) = errors_of({timeout: "90001"}, enabled)[timeout]
    assert "connector.transaction.timeout.max.ms=90000" in text
    assert errors_of({timeout: "90000"}, enabled) == {}
    slow = {"transaction.boundary": "interval", interval: "30001"}
    assert "three intervals take 90003" in errors_of(slow, enabled)[interval][0]
    assert errors_of({**slow, interval: "30000"}, enabled) == {}
    assert errors_of({timeout: "90001"}, worker()) == {}, "without transactions it means nothing"
    assert errors_of({timeout: "900001"}, worker(CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT="enabled"))[timeout]
