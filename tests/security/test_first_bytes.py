"""What a client sends before it knows with what it talks holds no line break.

A service that reads lines (memcached, a mail server, a printer) skips what it does not understand, and takes the next
line for a command. Redis is none of these: it waits at the zero bytes with which Kafka's requests begin. A worker
reaches services in private networks that an editor of a connector does not reach.
"""

import contextlib
import importlib.metadata
import socketserver
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import Producer as LibrdkafkaProducer

from ringfence.connectors.builtin.kafka_source.cluster import source_settings, target_settings
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.kafka_settings import java_names, security
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.fencing.errors import Invalid
from ringfence.fencing.kafka.connection import Connection, connection_of

SMUGGLED = "a\r\ndelete precious\r\nb"


@pytest.fixture
def somebodys(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, list[bytes]]]:
    """A server without a login that reads lines, in a network that `egress.allow` opens: its port, and the lines."""
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="loopback")])
    lines: list[bytes] = []

    class Lines(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                lines.extend(self.rfile)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Lines) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1], lines
        server.shutdown()


def test_a_kafka_clients_id_is_no_command(somebodys: tuple[int, list[bytes]]) -> None:
    port, lines = somebodys
    config = {"producer.override.bootstrap.servers": f"127.0.0.1:{port}", "producer.override.client.id": SMUGGLED}

    def connect() -> None:
        connection = connection_of(Role.PRODUCER, Connection("127.0.0.1:9"), {}, config)
        with contextlib.suppress(KafkaException):
            LibrdkafkaProducer({**connection.librdkafka(), "log_level": 0}).list_topics(timeout=2)

    with contextlib.suppress(Invalid):
        connect()
    assert b"delete precious\r\n" not in lines
    with pytest.raises(Invalid, match="control characters are not allowed"):
        connect()


MANY_LINES = {name for name in java_names.RULES if name.endswith(".pem")} | security.SECRETS
"""Keys and certificates, and what is sent behind a handshake only."""


@pytest.mark.parametrize("name", sorted(java_names.RULES.keys() - MANY_LINES))
def test_nor_is_any_other_setting_of_a_kafka_client(name: str) -> None:
    role = java_names.RULES[name].roles[0]
    assert java_names.translate(role, {name: SMUGGLED}).errors
    for side, translate in (("source", source_settings), ("target", target_settings)):
        given = {f"{side}.cluster.bootstrap.servers": "k:1", f"{side}.cluster.{name}": SMUGGLED}
        assert translate(given).errors


SENT_FIRST = {
    "ShareGroupSource": ["share.group"],
    "PostgresSource": ["database.hostname", "database.user", "database.dbname"],
    "SqlSource": ["connection.url", "connection.user"],
    "SparkTableSource": ["url", "user", "sftp.user"],
    "FilesSource": ["url", "sftp.user", "s3.endpoint.url", "gcs.endpoint.url", "azure.endpoint.url"],
}


@pytest.mark.parametrize(("name", "setting"), [(name, each) for name, those in SENT_FIRST.items() for each in those])
@pytest.mark.parametrize("character", ["\n", "\r", "\x00", "\x85"])
def test_nor_is_a_login_or_an_address(name: str, setting: str, character: str) -> None:
    (entry,) = importlib.metadata.entry_points(group="ringfence.connectors", name=name)
    definition = entry.load().config_def()
    if setting not in definition.keys:
        pytest.skip("it is translated, see above")
    (value,) = [each for each in definition.validate({setting: f"a{character}delete precious"}) if each.name == setting]
    assert "control sequences" in " ".join(value.errors)
