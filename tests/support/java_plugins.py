"""Kafka Connect's plugins in a `plugin.path` of their own, and what runs them."""

import subprocess
from pathlib import Path

from ringfence.connectors.java.runtime import JavaRuntime
from ringfence.local.jars import KAFKA_SERVER, KAFKA_VERSION, Coordinate, resolve
from ringfence.local.java import find_java
from ringfence.local.java_connectors import java_runtime

FILE_STREAM = Coordinate("org.apache.kafka", "connect-file", KAFKA_VERSION)
FILE_STREAM_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_STREAM_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"
MIRROR = Coordinate("org.apache.kafka", "connect-mirror", KAFKA_VERSION)
DEBEZIUM = Coordinate("io.debezium", "debezium-connector-postgres", "3.7.0.Final")
DEBEZIUM_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
DEBEZIUM_TASK = "io.debezium.connector.postgresql.PostgresConnectorTask"
DEBEZIUM_MARIADB = Coordinate("io.debezium", "debezium-connector-mariadb", "3.5.0.Final")
DEBEZIUM_MARIADB_CLASS = "io.debezium.connector.mariadb.MariaDbConnector"
DEBEZIUM_MARIADB_TASK = "io.debezium.connector.mariadb.MariaDbConnectorTask"
DEBEZIUM_MYSQL = Coordinate("io.debezium", "debezium-connector-mysql", "3.5.0.Final")
DEBEZIUM_MYSQL_CLASS = "io.debezium.connector.mysql.MySqlConnector"
DEBEZIUM_MYSQL_TASK = "io.debezium.connector.mysql.MySqlConnectorTask"
CAMEL = (
    Coordinate("org.apache.camel.kafkaconnector", "camel-kafka-connector", "0.11.0"),
    Coordinate("org.apache.camel", "camel-file", "3.11.1"),
)
"""Older than Kafka 3.6: its jar has no service manifest."""
CAMEL_CLASS = "org.apache.camel.kafkaconnector.CamelSourceConnector"
CAMEL_TASK = "org.apache.camel.kafkaconnector.CamelSourceTask"
TOOLS = Coordinate("org.apache.kafka", "kafka-tools", KAFKA_VERSION)


def plugin_path(root: Path, *plugins: Coordinate) -> Path:
    """A folder with one folder for each."""
    folder = root / "plugins"
    folder.mkdir(exist_ok=True)
    for plugin in plugins:
        place = folder / plugin.artifact
        if not place.exists():
            place.symlink_to(resolve(plugin.artifact, [plugin]))
    return folder


def runtime_of(folder: Path, **settings: str) -> JavaRuntime:
    """Settings are given with `_` for `.`."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    found = java_runtime({"plugin.path": str(folder), **named})
    assert found is not None
    return found


def settings_of(java: JavaRuntime) -> dict[str, str]:
    """The settings of a worker whose Java connectors reach what runs on this machine."""
    return {**java.as_settings(), "egress.allow": "loopback"}


def write_manifests(folder: Path) -> None:
    """What Kafka's `connect-plugin-path.sh sync-manifests --plugin-path` does to `folder`."""
    jars = resolve("kafka-tools", (*KAFKA_SERVER, TOOLS))
    command = [str(find_java()), "-cp", f"{jars}/*", "org.apache.kafka.tools.ConnectPluginPath", "sync-manifests"]
    subprocess.run([*command, "--plugin-path", str(folder)], check=True, capture_output=True, timeout=120)
