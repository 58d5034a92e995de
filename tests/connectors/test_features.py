"""What connectors contribute to the platform is found by their names, and needs none of their libraries."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from ringfence.connectors.sdk.features import GROUP, Features, features_of

NAMES = ["WebhookSource", "WebhookSourceConnector", "connectors.builtin.webhook.connector.WebhookSourceConnector"]


@pytest.mark.parametrize("name", [*NAMES, " WebhookSource "])
def test_features_are_found_by_each_name_of_the_class(name: str) -> None:
    assert features_of(name).receives_requests


@pytest.mark.parametrize(
    "name", ["", "Nope", "io.debezium.connector.postgresql.PostgresConnector", "WebhookSourceTask"]
)
def test_a_class_that_declares_nothing_contributes_nothing(name: str) -> None:
    assert features_of(name) == Features()


def test_features_are_declared_under_the_names_of_connectors() -> None:
    names = {point.name for point in entry_points(group=GROUP)}
    assert {"PostgresSource", "ShareGroupSource", "WebhookSource"} <= names
    assert names <= {point.name for point in entry_points(group="ringfence.connectors")}
    assert all(isinstance(point.load(), Features) for point in entry_points(group=GROUP))


def test_features_load_without_drivers_and_clients() -> None:
    code = (
        "import sys; from importlib.metadata import entry_points\n"
        f"[point.load() for point in entry_points(group={GROUP!r})]\n"
        "print(sorted({'psycopg', 'sqlalchemy', 'confluent_kafka', 'kafka', 'dlt', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
