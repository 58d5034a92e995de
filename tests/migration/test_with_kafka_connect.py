"""Migration in place: Ringfence, then the real Kafka Connect on the same topics and group.id, and back again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchmarks.rest import Rest
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.kafka import EmbeddedKafka
from tests.support.kafka_connect_moves import SHARED, Moved, Ringfence
from tests.support.waiting import eventually

LINES = 500
"""Written in each stage; the rows are their own numbers."""


class Source:
    """A file that grows, and the topic that should hold each of its lines once."""

    def __init__(self, path: Path, connection: Connection) -> None:
        self.path = path
        self.topic = "moving-data"
        self.config = {"connector.class": "FileStreamSource", "file": str(path), "topic": self.topic, "tasks.max": "1"}
        self._connection = connection
        self._written = 0
        create_topics(connection, [TopicSpec(self.topic)], Deadline.after(30))

    def grow(self) -> None:
        with self.path.open("a") as file:
            for number in range(self._written, self._written + LINES):
                file.write(f"{number}\n")
        self._written += LINES

    def arrived(self) -> None:
        """Every line once, in order, to a read_committed reader."""
        eventually(lambda: len(self.visible()) >= self._written, 120, "all lines arrive", pause=0.5)
        assert self.visible() == list(range(self._written))

    def visible(self) -> list[int]:
        log = TopicLog(self._connection, self.topic)
        try:
            return [int(record.value or b"-1") for record in log.read_to_end(Deadline.after(60))]
        finally:
            log.close()


def ringfence(folder: Path, broker: EmbeddedKafka, more: Mapping[str, str] | None = None) -> Ringfence:
    """A platform with the shared settings. more: of its worker."""
    told = {"bootstrap.servers": broker.bootstrap, "events.storage.replication.factor": "1"}
    settings = {**SHARED, **told, **(more or {})}
    variables = {f"CONNECT_{key.upper().replace('.', '_')}": value for key, value in settings.items()}
    return Ringfence(folder / "ringfence", 1, variables)


def begin(up: Ringfence, source: Source) -> None:
    """Create the connector, and stop the platform once the first lines have arrived."""
    source.grow()
    up.start()
    try:
        with Rest(f"http://{up.http}") as rest:
            rest.create("lines", source.config)
        source.arrived()
    finally:
        up.stop()


@contextmanager
def taken_over(up: Ringfence, source: Source) -> Iterator[None]:
    """Grow the file, and start the platform: it runs the connector, and the lines arrive."""
    source.grow()
    up.start()
    try:
        source.arrived()
        with Rest(f"http://{up.http}") as rest:
            eventually(lambda: rest.running("lines") == 1, 60, "RUNNING in Ringfence")
        yield
    finally:
        up.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_there_and_back_each_line_arrives_once(own_broker: EmbeddedKafka, tmp_path: Path) -> None:
    source = Source(tmp_path / "lines.txt", Connection(own_broker.bootstrap))
    up = ringfence(tmp_path, own_broker)
    connect = Moved(tmp_path / "connect", own_broker.bootstrap)

    begin(up, source)

    source.grow()
    connect.start()
    try:
        source.arrived()
        with Rest(connect.url) as rest:
            eventually(lambda: rest.running("lines") == 1, 60, "RUNNING in Kafka Connect")
            source.grow()
            source.arrived()
    finally:
        connect.stop()

    with taken_over(up, source):
        source.grow()
        source.arrived()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kafka_connect_ignores_encrypted_configurations_and_leaves_them_as_they_are(
    own_broker: EmbeddedKafka, tmp_path: Path
) -> None:
    source = Source(tmp_path / "lines.txt", Connection(own_broker.bootstrap))
    up = ringfence(tmp_path, own_broker, {"config.storage.encryption.enable": "true"})
    connect = Moved(tmp_path / "connect", own_broker.bootstrap)

    begin(up, source)

    connect.start()
    try:
        assert httpx.get(f"{connect.url}/connectors").json() == []
    finally:
        connect.stop()
    assert "'properties' field should be a Map" in (tmp_path / "connect" / "connect.log").read_text()

    with taken_over(up, source):
        pass
