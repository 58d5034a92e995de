"""Java client settings in librdkafka's words."""

import json

import pytest
from confluent_kafka import Producer

from ringfence.connectors.sdk.kafka_settings.java_names import MAX_BLOCK, RULES, Role, servers, translate
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import (
    Connection,
    connection_of,
    producer_overrides,
    resolve_settings,
    transaction_timeout_ms,
)
from ringfence.fencing.task.boundaries import Boundaries
from ringfence.fencing.transactions.record_batches import HEAD_BYTES
from ringfence.fencing.transactions.settings import encoded_batch_bytes
from ringfence.worker_config import WorkerConfig

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="p w=\\"d;";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username=ann password=secret ;"
BASE = Connection("127.0.0.1:9092", {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "worker"})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max.request.size", "5242880", {"message.max.bytes": "5242880"}),
        ("buffer.memory", "33554432", {"queue.buffering.max.kbytes": "32768"}),
        ("delivery.timeout.ms", "120000", {"message.timeout.ms": "120000"}),
        ("request.timeout.ms", "30000", {"socket.timeout.ms": "30000"}),
        ("compression.type", "ZSTD", {"compression.type": "zstd"}),
        ("batch.size", "16384", {"batch.size": "16384"}),
        ("batch.size", "0", {"batch.size": "1"}),
        ("linger.ms", " 20 ", {"linger.ms": "20"}),
        ("acks", "-1", {"acks": "all"}),
        ("acks", "1", {"acks": "1"}),
        ("max.in.flight.requests.per.connection", "1", {"max.in.flight.requests.per.connection": "1"}),
        ("connections.max.idle.ms", "-1", {"connections.max.idle.ms": "0"}),
        ("receive.buffer.bytes", "-1", {"socket.receive.buffer.bytes": "0"}),
        ("security.protocol", "sasl_ssl", {"security.protocol": "SASL_SSL"}),
        ("ssl.endpoint.identification.algorithm", "", {"ssl.endpoint.identification.algorithm": "none"}),
        ("sasl.jaas.config", PLAIN, {"sasl.username": "ann", "sasl.password": 'p w="d;'}),
        ("sasl.jaas.config", SCRAM, {"sasl.username": "ann", "sasl.password": "secret"}),
        ("client.id", "flights", {"client.id": "flights"}),
        ("transaction.timeout.ms", "90000", {"transaction.timeout.ms": "90000"}),
        ("max.block.ms", "1000", {"max.block.ms": "1000"}),
    ],
)
def test_a_java_setting_gets_its_counterpart(name: str, value: str, expected: dict[str, str]) -> None:
    found = translate(Role.PRODUCER, {name: value})
    assert (found.settings, found.errors, found.warnings) == (expected, {}, {})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("interceptor.classes", "x.Y", "Unknown configuration"),
        ("max.block.ms", "0", "from 1"),
        ("client.dns.lookup", "resolve_canonical_bootstrap_servers_only", "Kerberos"),
        ("fetch.min.bytes", "1", "Unknown configuration"),
        ("linger.ms", "soon", "an integer"),
        ("acks", "2", "one of all, 1, 0"),
        ("retries", "0", "from 1"),
        ("max.in.flight.requests.per.connection", "6", "from 1 to 5"),
        ("compression.type", "brotli", "one of none, gzip"),
        ("compression.lz4.level", "40", "from 1 to 12"),
        ("sasl.mechanism", "GSSAPI", "one of PLAIN"),
        ("enable.ssl.certificate.verification", "false", "Unknown configuration"),
        ("partitioner.ignore.keys", "true", "Unknown configuration"),
        ("sasl.jaas.config", "${file:/etc/x:jaas}", "is expected"),
        ("sasl.jaas.config", 'com.sun.Krb5LoginModule required username="a" password="b";', "no counterpart"),
        ("sasl.jaas.config", PLAIN.replace("password", "pass"), "must contain password"),
        ("ssl.truststore.location", "/etc/trust.jks", "type=PEM"),
        ("ssl.keystore.type", "PKCS12", "type=PEM"),
    ],
)
def test_what_has_no_counterpart_is_an_error_that_names_it(name: str, value: str, says: str) -> None:
    found = translate(Role.PRODUCER, {name: value}, {name: f"producer.override.{name}"})
    (full,) = found.errors
    assert full == f"producer.override.{name}"
    assert full in found.errors[full]
    assert says in found.errors[full]


@pytest.mark.parametrize("role", list(Role))
def test_an_error_never_quotes_a_secret(role: Role) -> None:
    given = {"sasl.jaas.config": 'x required password="hunter2";', "foo.password": "hunter2", "ssl.key.password": ""}
    found = translate(role, given)
    assert len(found.errors) == 3
    assert "hunter2" not in " ".join(found.errors.values())
    assert "hunter2" not in repr(translate(role, {"sasl.jaas.config": PLAIN.replace("ann", "hunter2")}))


@pytest.mark.parametrize(
    ("role", "name", "value"),
    [
        (Role.CONSUMER, "isolation.level", "read_uncommitted"),
        (Role.PRODUCER, "transactional.id", "mine"),
        (Role.PRODUCER, "enable.idempotence", "false"),
        (Role.CONSUMER, "group.id", "g"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "override."])
def test_what_the_runtime_fixes_is_ignored_with_a_warning(role: Role, name: str, value: str, prefix: str) -> None:
    key = f"{role}.{prefix}{name}"
    found = resolve_settings(role, *(({}, {key: value}) if prefix else ({key: value}, {})))
    assert found.settings == {}
    assert found.errors == {}
    assert list(found.warnings) == [key]
    assert f"{key} is ignored" in found.warnings[key]


def test_pem_stores_become_pem_settings() -> None:
    given = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/etc/me.pem",
    }
    expected = {
        "ssl.ca.pem": "CA",
        "ssl.key.location": "/etc/me.pem",
        "ssl.certificate.location": "/etc/me.pem",
    }
    assert translate(Role.ADMIN, given).settings == expected


def test_the_level_of_the_codec_in_use_counts() -> None:
    given = {"compression.type": "zstd", "compression.zstd.level": "7", "compression.gzip.level": "1"}
    assert translate(Role.PRODUCER, given).settings == {"compression.type": "zstd", "compression.level": "7"}


def test_the_connectors_settings_stand_above_the_workers() -> None:
    worker = {
        "producer.linger.ms": "1",
        "producer.batch.size": "7",
        "linger.ms": "9",
        "producer.sasl.jaas.config": PLAIN,
    }
    connector = {"producer.override.linger.ms": "2", "producer.override.sasl.jaas.config": SCRAM, "linger.ms": "8"}
    settings = producer_overrides(BASE, worker, connector, 60_000)
    assert settings == {"linger.ms": "2", "batch.size": "7"}
    connection = connection_of(Role.PRODUCER, BASE, worker, connector)
    assert (connection.settings["sasl.username"], connection.settings["sasl.password"]) == ("ann", "secret")


def test_no_delivery_may_outlast_the_transaction() -> None:
    connector = {"producer.override.delivery.timeout.ms": "120000", "producer.override.request.timeout.ms": "90000"}
    settings = producer_overrides(BASE, {}, connector, 10_000)
    assert settings == {"message.timeout.ms": "10000", "socket.timeout.ms": "10000"}
    Producer({"transactional.id": "x", "transaction.timeout.ms": 10_000, **settings})


@pytest.mark.parametrize(
    ("worker", "connector", "expected"),
    [
        ({}, {}, 60_000),
        ({"transaction.timeout.ms": "70000"}, {}, 70_000),
        ({"transaction.timeout.ms": "70000", "producer.transaction.timeout.ms": "80000"}, {}, 80_000),
        ({"producer.transaction.timeout.ms": "80000"}, {"producer.override.transaction.timeout.ms": "90000"}, 90_000),
        ({}, {"producer.override.transaction.timeout.ms": "soon"}, 60_000),
        # Who waits for a lost member's transaction waits no longer than for its session (KIP-447).
        ({}, {"assignment": "group"}, 10_000),
        ({}, {"assignment": "group", "source.consumer.session.timeout.ms": "45000"}, 45_000),
        ({}, {"assignment": "group", "source.consumer.session.timeout.ms": "${env:T}"}, 10_000),
        ({}, {"assignment": "static", "source.consumer.session.timeout.ms": "45000"}, 60_000),
        ({"transaction.timeout.ms": "70000"}, {"assignment": "group"}, 70_000),
        ({}, {"assignment": "group", "producer.override.transaction.timeout.ms": "30000"}, 30_000),
    ],
)
def test_the_transaction_timeout(worker: dict[str, str], connector: dict[str, str], expected: int) -> None:
    assert transaction_timeout_ms(worker, connector) == expected


def test_a_group_gets_three_commit_intervals_too() -> None:
    config = {"assignment": "group", "transaction.boundary": "interval", "transaction.boundary.interval.ms": "20000"}
    worker = WorkerConfig.from_environment({}).settings
    assert "transaction.timeout.ms" not in worker, "a default there would look like somebody's setting"
    assert Boundaries.of(config, 1).transaction_timeout_ms(transaction_timeout_ms(worker, config)) == 60_000
    quick = {**config, "transaction.boundary.interval.ms": "1000"}
    assert Boundaries.of(quick, 1).transaction_timeout_ms(transaction_timeout_ms(worker, quick)) == 10_000


ELSEWHERE = {"producer.override.bootstrap.servers": "elsewhere:9092"}


def test_the_producers_cluster_is_everybodys() -> None:
    for role in Role:
        assert connection_of(role, BASE, {}, ELSEWHERE).bootstrap == "elsewhere:9092"
        same = {"producer.override.bootstrap.servers": " 127.0.0.1:9092 ,"}
        assert connection_of(role, BASE, {}, same).bootstrap == BASE.bootstrap
    assert servers("a:1,b:2") == servers("B:2, a:1")
    assert "bootstrap.servers" not in producer_overrides(BASE, {}, ELSEWHERE, 60_000)


def test_the_workers_login_is_not_sent_to_another_cluster() -> None:
    assert connection_of(Role.PRODUCER, BASE, {}, {}).settings == BASE.settings
    assert connection_of(Role.PRODUCER, BASE, {}, ELSEWHERE).settings == {}


def test_where_the_producer_goes_its_login_serves_all_that_have_none() -> None:
    config = {**ELSEWHERE, "producer.override.sasl.jaas.config": SCRAM, "producer.override.linger.ms": "5"}
    login = {"sasl.username": "ann", "sasl.password": "secret"}
    assert connection_of(Role.ADMIN, BASE, {}, config).settings == login
    assert connection_of(Role.CONSUMER, BASE, {}, config).settings == login
    own = {**config, "admin.override.sasl.username": "bob", "admin.override.sasl.password": "other"}
    assert connection_of(Role.ADMIN, BASE, {}, own).settings["sasl.username"] == "bob"


@pytest.mark.parametrize("role", ["consumer", "admin"])
def test_no_client_may_be_led_away_from_the_producers_cluster(role: str) -> None:
    astray_ = {f"{role}.override.bootstrap.servers": "third:9092"}
    for config in (astray_, {**ELSEWHERE, **astray_}):
        with pytest.raises(Invalid, match="another cluster than the producer's"):
            connection_of(Role(role), BASE, {}, config)
    connection_of(Role(role), BASE, {}, {**ELSEWHERE, f"{role}.override.bootstrap.servers": "elsewhere:9092"})


def test_an_unreadable_override_ends_the_task_with_its_name() -> None:
    with pytest.raises(Invalid, match=r"producer\.override\.linger\.ms"):
        producer_overrides(BASE, {}, {"producer.override.linger.ms": "x"}, 60_000)


def test_a_consumers_credentials_and_fetch_sizes_reach_its_connection() -> None:
    connector = {"consumer.override.sasl.jaas.config": SCRAM, "consumer.override.fetch.min.bytes": "5"}
    connection = connection_of(Role.CONSUMER, BASE, {"consumer.client.id": "me"}, connector)
    assert connection.client_id == "me"
    assert connection.settings["sasl.username"] == "ann"
    assert connection.settings["security.protocol"] == "SASL_PLAINTEXT"
    assert "fetch.min.bytes" not in connection.librdkafka()
    assert connection.for_reading(isolation_level="read_committed")["fetch.min.bytes"] == "5"
    assert "secret" not in repr(connection)
    json.dumps(connection.as_json())


def test_librdkafka_knows_every_name_in_the_table() -> None:
    values = {
        "acks": "all",
        "security.protocol": "PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "client.dns.lookup": "use_all_dns_ips",
        "compression.type": "lz4",
        "ssl.endpoint.identification.algorithm": "none",
        "check.crcs": "true",
        "max.in.flight.requests.per.connection": "5",
        "message.timeout.ms": "1000",
        "transaction.timeout.ms": "60000",
    }
    not_told = ("ssl.", "sasl.oauthbearer.", "https.")
    for rule in RULES.values():
        if Role.PRODUCER in rule.roles and not rule.to.startswith(not_told) and rule.to != MAX_BLOCK:
            Producer({rule.to: values.get(rule.to, "1000")})


@pytest.mark.parametrize(
    "settings, most",
    [
        ({}, 512 * 1024 - HEAD_BYTES),
        ({"batch.size": "1000", "linger.ms": "20"}, 1000 - HEAD_BYTES),
        ({"batch.size": "1"}, 1),
        ({"batch.size": "2000000"}, 1_000_000 - HEAD_BYTES),
        ({"compression.type": "none"}, 512 * 1024 - HEAD_BYTES),
        ({"compression.type": "lz4"}, 512 * 1024 - HEAD_BYTES),
        ({"max.request.size": "5000"}, 5000 - HEAD_BYTES),
        ({"batch.size": "2000000", "max.request.size": "5000000"}, 2_000_000 - HEAD_BYTES),
    ],
)
def test_how_large_encoded_batches_are(settings: dict[str, str], most: int) -> None:
    """Whole batches, with their heads, are no larger than `batch.size`: a topic's `max.message.bytes` may be that."""
    config = {f"producer.override.{name}": value for name, value in settings.items()}
    assert encoded_batch_bytes(resolve_settings(Role.PRODUCER, {}, config).settings) == most
