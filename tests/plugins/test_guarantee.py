"""What our own connectors say that they guarantee, by their settings."""

import json

import pytest

from ringfence.connectors.api import SourceConnector
from ringfence.connectors.builtin.dlt_source.connector import DltSourceConnector
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.connectors.builtin.pyspark_source.connector import PySparkSourceConnector
from ringfence.connectors.builtin.share_group.connector import ShareGroupSourceConnector
from ringfence.connectors.builtin.spark_table.connector import SparkTableSourceConnector
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.webhook.connector import WebhookSourceConnector
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import ReadGuarantee
from ringfence.engine.plugins.validation import describe_guarantee, exactly_once_problems
from tests.support.plugin_hosts import PATIENCE

ONCE, WINDOW, LEAST = "Exactly once", "Exactly once within a window", "At least once"


def rest(**endpoint: object) -> str:
    resource = {"name": "orders", "endpoint": {"path": "orders", **endpoint}}
    return json.dumps({"client": {"base_url": "https://1.1.1.1/"}, "resources": [resource]})


CURSOR = {"cursor_path": "at", "initial_value": "2026-01-01"}
SINCE = {"since": "{incremental.start_value}"}
CASES: tuple[tuple[type[SourceConnector], dict[str, str], str, str], ...] = (
    (FilesSourceConnector, {"url": "file:///in", "format": "text"}, ONCE, ""),
    (SqlSourceConnector, {"mode": "xmin"}, ONCE, ""),
    (SqlSourceConnector, {"mode": "timestamp"}, ONCE, "longer than timestamp.delay.interval.ms are missed"),
    (SqlSourceConnector, {"mode": "incrementing"}, ONCE, "commit late are missed"),
    (SqlSourceConnector, {"mode": "incrementing", "connection.url": "sqlite:////in/shop.sqlite"}, ONCE, ""),
    (SqlSourceConnector, {"mode": "bulk"}, LEAST, "Choose another mode"),
    (DltSourceConnector, {"rest.config": rest(params=SINCE, incremental=CURSOR), "topic.prefix": "p"}, ONCE, ""),
    (DltSourceConnector, {"rest.config": rest(), "topic.prefix": "p"}, LEAST, "Resource orders: it has no incremental"),
    (SparkTableSourceConnector, {"url": "file:///in"}, ONCE, ""),
    (SparkTableSourceConnector, {"url": "jdbc:postgresql://h/d"}, ONCE, "use PostgresSource"),
    (PySparkSourceConnector, {"data.source": "weather"}, ONCE, "the same rows each time"),
    (WebhookSourceConnector, {"idempotency.key": "body:/id"}, WINDOW, "until it gets 2xx"),
    (WebhookSourceConnector, {}, LEAST, "Set idempotency.key"),
    (KafkaSourceConnector, {}, ONCE, ""),
    (KafkaSourceConnector, {"source.consumer.isolation.level": "read_uncommitted"}, LEAST, "aborted transactions"),
    (ShareGroupSourceConnector, {}, ONCE, ""),
)


@pytest.mark.parametrize(("cls", "config", "guarantee", "why"), CASES)
def test_each_connector_says_what_it_guarantees(
    cls: type[SourceConnector], config: dict[str, str], guarantee: str, why: str
) -> None:
    told = describe_guarantee(cls(), config, exactly_once=True)
    assert told["guarantee"] == guarantee
    assert why in told["why"] if why else told["why"] == ""
    refused = exactly_once_problems(cls(), config)
    assert bool(refused) == (guarantee == LEAST), (
        "exactly.once.support=required accepts what is not, or refuses what is"
    )
    told = describe_guarantee(cls(), config, exactly_once=False)
    assert told["guarantee"] == LEAST, "the workers write without transactions"


def test_a_plugin_process_tells_it_without_secrets(host: PluginHost) -> None:
    config = {"connector.class": "WebhookSource", "name": "hook", "topic": "t", "signature": "none"}
    told = host.ask(ReadGuarantee(config, exactly_once=True), PATIENCE)
    assert told == {"guarantee": LEAST, "why": "A request that is sent again is a second record. Set idempotency.key."}
