"""Sources for our own connectors under the compatibility suite that we offer others.

VerifiableSource has none: it counts by itself, and nobody can add to it.
"""

import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

import psycopg
import pyarrow
import pyarrow.parquet
from confluent_kafka import Producer

from ringfence.connectors.api import SourceRecord, Struct
from ringfence.connectors.builtin.dlt_source.connector import DltSourceConnector
from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.builtin.kafka_source.connector import KafkaSourceConnector
from ringfence.connectors.builtin.postgres.connector import PostgresSourceConnector
from ringfence.connectors.builtin.pyspark_source.connector import PySparkSourceConnector
from ringfence.connectors.builtin.share_group.connector import ShareGroupSourceConnector
from ringfence.connectors.builtin.spark_table.connector import SparkTableSourceConnector
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.webhook.connector import WebhookSourceConnector
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.testing import Scenario
from ringfence.testing.oddities import UNSUPPORTED, Kind, Oddity
from tests.compatibility.senders import Senders, status_topic
from tests.postgres.local import config_of, drop_slots
from tests.support.orders_api import OrdersApi
from tests.support.postgres import Postgres

_SQLITE_TYPES: Final = {
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.BYTES: "BLOB",
    **dict.fromkeys((Kind.TEXT, Kind.UUID, Kind.JSON, Kind.INTERVAL), "TEXT"),
}

TEXT = {"value.converter": "StringConverter"}


def add_line(file: Path, oddity: Oddity) -> bool:
    """Add the text as one line; return False if it would be several."""
    if oddity.kind is not Kind.TEXT or {"\r", "\n"} & set(oddity.literal):
        return False
    with file.open("a", encoding="utf-8", newline="") as lines:
        lines.write(f"{oddity.literal}\n")
    return True


class NumberedScenario(Scenario):
    """Its values are numbered texts."""

    added = 0

    def number(self, word: str, count: int) -> list[str]:
        """The next so many: "word 0", "word 1", ..."""
        first, self.added = self.added, self.added + count
        return [f"{word} {number}" for number in range(first, self.added)]


class FileStreamScenario(NumberedScenario):
    """One file that grows."""

    connector = FileStreamSourceConnector
    records = 20_000

    def config(self) -> Mapping[str, str]:
        return {"file": str(self.folder / "lines.txt"), "topic": self.topic, "batch.size": "200", **TEXT}

    def add(self, count: int) -> Sequence[str]:
        lines = self.number("line", count)
        with (self.folder / "lines.txt").open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        return lines

    def add_value(self, oddity: Oddity) -> bool:
        return add_line(self.folder / "lines.txt", oddity)


class FilesScenario(NumberedScenario):
    """Hundreds of files, on two tasks."""

    connector = FilesSourceConnector
    tasks = 2
    records = 20_000

    def config(self) -> Mapping[str, str]:
        reading = {"format": "text", "settle.ms": "0", "batch.size": "100"}
        return {"url": f"file://{self.folder}", "topic": self.topic, **reading, **TEXT}

    def add(self, count: int) -> Sequence[str]:
        lines = self.number("line", count)
        for part in range(60):
            (self.folder / f"{self.added:09}-{part}.txt").write_text("".join(f"{line}\n" for line in lines[part::60]))
        return lines

    def add_value(self, oddity: Oddity) -> bool:
        return add_line(self.folder / "values.txt", oddity)


class SqlScenario(NumberedScenario):
    """A table that grows."""

    connector = SqlSourceConnector
    records = 4000

    def __init__(self, folder: Path, topic: str) -> None:
        super().__init__(folder, topic)
        self.database = sqlite3.connect(folder / "shop.sqlite", isolation_level=None)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")

    def config(self) -> Mapping[str, str]:
        reading = {"mode": "incrementing", "incrementing.column.name": "id", "poll.interval.ms": "100"}
        batches = {"batch.max.rows": "100", "topic.prefix": self.topic}
        return {"connection.url": f"sqlite:///{self.folder}/shop.sqlite", **reading, **batches}

    def add(self, count: int) -> Sequence[str]:
        names = self.number("order", count)
        self.database.execute("BEGIN")
        self.database.executemany("INSERT INTO orders (name) VALUES (?)", [(name,) for name in names])
        self.database.execute("COMMIT")
        return names

    def identify(self, record: LogRecord) -> str:
        return str(json.loads(record.value or b"{}")["name"])

    def add_value(self, oddity: Oddity) -> bool:
        column = _SQLITE_TYPES.get(oddity.kind)
        # SQLite stores NaN as null, and -0 as 0.
        if column is None or oddity.value is UNSUPPORTED or oddity.literal in ("NaN", "-0"):
            return False
        columns = ", ".join(f'"{kind}" {each}' for kind, each in _SQLITE_TYPES.items())
        self.database.execute(f"CREATE TABLE IF NOT EXISTS odd (id INTEGER PRIMARY KEY, {columns})")
        self.database.execute(f'INSERT INTO odd ("{oddity.kind}") VALUES (?)', (oddity.value,))
        return True

    def value_of(self, record: SourceRecord) -> object:
        assert isinstance(record.value, Struct)
        (value,) = [value for value in record.value.values[1:] if value is not None]
        return value

    def close(self) -> None:
        self.database.close()


class KafkaScenario(NumberedScenario):
    """A topic with four partitions, copied by two tasks. Copies are called `<alias>.<topic>`."""

    connector = KafkaSourceConnector
    tasks = 2
    records = 20_000

    def config(self) -> Mapping[str, str]:
        self._create()
        servers = {f"{side}.cluster.bootstrap.servers": self.bootstrap for side in ("source", "target")}
        names = {"source.cluster.alias": self.topic, "target.cluster.alias": "target", "topics": self._source}
        raw = dict.fromkeys(("key.converter", "value.converter"), "ByteArrayConverter")
        return {
            **servers,
            **names,
            **raw,
            "replication.factor": "1",
            "batch.size": "100",
            "consumer.poll.timeout.ms": "100",
        }

    def add(self, count: int) -> Sequence[str]:
        self._create()
        values = self.number("message", count)
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for number, value in enumerate(values):
            producer.produce(self._source, value.encode(), partition=number % 4)
            producer.poll(0)
        assert producer.flush(30) == 0
        return values

    @property
    def _source(self) -> str:
        return f"source-{self.topic}"

    def _create(self) -> None:
        create_topics(Connection(self.bootstrap), [TopicSpec(self._source, partitions=4)], Deadline.after(30))


class DltScenario(Scenario):
    """A REST API in pages, with a cursor that several rows share."""

    connector = DltSourceConnector
    records = 6000

    def __init__(self, folder: Path, topic: str) -> None:
        super().__init__(folder, topic)
        self.api = OrdersApi(page=40)

    def config(self) -> Mapping[str, str]:
        reading = {"checkpoint": "pass", "transaction.boundary": "connector", "poll.interval.ms": "100"}
        return {"rest.config": self.api.config(), "topic.prefix": self.topic, **reading}

    def add(self, count: int) -> Sequence[str]:
        before = len(self.api.rows)
        self.api.add(count)
        return [str(row["id"]) for row in self.api.rows[before:]]

    def identify(self, record: LogRecord) -> str:
        return str(json.loads(record.value or b"{}")["id"])

    def close(self) -> None:
        self.api.__exit__(None, None, None)


class PySparkScenario(NumberedScenario):
    """An installed data source of PySpark that divides its reads."""

    connector = PySparkSourceConnector
    records = 20_000

    def __init__(self, folder: Path, topic: str) -> None:
        super().__init__(folder, topic)
        info = folder / "numbers_source-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numbers-source\nVersion: 1.0\n")
        point = "numbers = tests.compatibility.numbers_source:Numbers"
        (info / "entry_points.txt").write_text(f"[ringfence.data_sources]\n{point}\n")
        self._tell(0)
        sys.path.insert(0, str(folder))  # the tasks' processes have the same path

    def config(self) -> Mapping[str, str]:
        reading = {"poll.interval.ms": "50", "option.file": str(self.folder / "rows")}
        return {"data.source": "numbers", "topic": self.topic, **reading}

    def add(self, count: int) -> Sequence[str]:
        rows = self.number("row", count)
        self._tell(self.added)
        return rows

    def identify(self, record: LogRecord) -> str:
        return str(json.loads(record.value or b"{}")["n"])

    def close(self) -> None:
        sys.path.remove(str(self.folder))

    def _tell(self, rows: int) -> None:
        (self.folder / "next").write_text(str(rows))
        (self.folder / "next").rename(self.folder / "rows")


class SparkTableScenario(Scenario):
    """A folder of Parquet files, written once, in parts that two tasks read."""

    connector = SparkTableSourceConnector
    tasks = 2
    records = 20_000
    grows = False

    def config(self) -> Mapping[str, str]:
        reading = {"part.rows": "500", "batch.size": "50"}
        return {"url": f"file://{self.folder}", "topic": self.topic, **reading}

    def add(self, count: int) -> Sequence[str]:
        rows = [f"row {number}" for number in range(count)]
        for part in range(4):
            table = pyarrow.table({"n": rows[part::4]})
            pyarrow.parquet.write_table(table, self.folder / f"part-{part}.parquet", row_group_size=500)
        return rows

    def identify(self, record: LogRecord) -> str:
        return str(json.loads(record.value or b"{}")["n"])


class PostgresScenario(Scenario):
    """A table that is read as a snapshot, and then by its changes."""

    connector = PostgresSourceConnector
    records = 4000
    server: ClassVar[Postgres]
    """Set before the first check."""

    def __init__(self, folder: Path, topic: str) -> None:
        super().__init__(folder, topic)
        self._name = topic.replace("-", "_")
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self._name}".encode())
        self._database = psycopg.connect(
            f"host=127.0.0.1 port={self.server.port} user=ringfence dbname={self._name}", autocommit=True
        )
        self._database.execute("CREATE TABLE orders (id serial PRIMARY KEY, name text NOT NULL)")

    def config(self) -> Mapping[str, str]:
        config = config_of(self.server, self._name, topic_prefix=self.topic, snapshot_mode="initial")
        return {key: value for key, value in config.items() if key != "name"}

    def add(self, count: int) -> Sequence[str]:
        with self._database.cursor() as cursor:
            cursor.execute("INSERT INTO orders (name) SELECT 'order' FROM generate_series(1, %s) RETURNING id", [count])
            return [str(number) for (number,) in cursor.fetchall()]

    def identify(self, record: LogRecord) -> str:
        return str(json.loads(record.value or b"{}")["after"]["id"])

    def close(self) -> None:
        drop_slots(self._database, self._name)
        self._database.close()


class ShareGroupScenario(KafkaScenario):
    """A topic with four partitions as a queue for three tasks."""

    connector = ShareGroupSourceConnector
    tasks = 3
    records = 10_000

    def config(self) -> Mapping[str, str]:
        # What a frozen task holds comes back after the lock. The sweep reads what was accepted before a reset.
        waiting = {"share.lock.ms": "1000", "share.sweep.after.ms": "3000", "share.claim.timeout.ms": "2000"}
        return {**super().config(), **waiting, "transaction.boundary": "poll"}


class WebhookScenario(NumberedScenario):
    """Senders that send again until they hear 2xx, and some of them once more."""

    connector = WebhookSourceConnector
    records = 6000
    reset_reads_again = False
    _senders: Senders | None = None

    def config(self) -> Mapping[str, str]:
        keys = {"idempotency.key": "header:Idempotency-Key", "key.converter": "StringConverter"}
        limits = {"batch.max.requests": "20", "transaction.boundary": "poll"}
        return {"topic": self.topic, "signature": "none", "body.format": "text", **keys, **limits, **TEXT}

    def add(self, count: int) -> Sequence[str]:
        if self._senders is None:
            self._senders = Senders(Connection(self.bootstrap), status_topic(self.topic))
        events = self.number("event", count)
        self._senders.send(events)
        return events

    def close(self) -> None:
        if self._senders is not None:
            self._senders.close()


class KeylessScenario(WebhookScenario):
    """The control: what is sent again is a second record."""

    def config(self) -> Mapping[str, str]:
        return {**super().config(), "idempotency.key": ""}


SCENARIOS: tuple[type[Scenario], ...] = (
    FileStreamScenario,
    FilesScenario,
    SqlScenario,
    KafkaScenario,
    ShareGroupScenario,
    DltScenario,
    PySparkScenario,
    SparkTableScenario,
    WebhookScenario,
    PostgresScenario,
)
