"""PostgresSource on a real server and the real broker: the connector's configuration, its attempts, what they wrote."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, TopicPartition

from ringfence.connectors.builtin.postgres.connector import PostgresSourceConnector
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.source_offsets import read_offsets
from ringfence.fencing.task.task_spec import TaskSpec
from tests.guarantees.stage import Stage
from tests.postgres.local import Run, config_of, drop_slots, loopback
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

_JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class Seen:
    """A record that a read_committed reader sees; `transaction`: of its topic, counted by their markers."""

    topic: str
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    transaction: int


class Stand:
    """One connector: a database of its own, topics and slot of its own. Attempts are processes, to be killed."""

    def __init__(self, postgres: Postgres, bootstrap: str, name: str, root: Path, **settings: str) -> None:
        """settings: of the connector, with `_` for `.`."""
        self.name = name.replace("-", "_")
        self.prefix = name
        self.root = root
        self.dsn = self._dsn(postgres)
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{self.name}"'.encode())
        self.stage = Stage(Connection(bootstrap), name)
        self.config = {
            "name": "numbers",
            "connector.class": "PostgresSource",
            "database.hostname": "127.0.0.1",
            "database.port": str(postgres.port),
            "database.user": "ringfence",
            "database.dbname": self.name,
            "topic.prefix": name,
            "slot.name": self.name,
            "snapshot.mode": "no_data",
            "transaction.boundary": "connector",
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self._attempt = 0
        self.hooks: Sequence[str] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._configured = False

    def _dsn(self, postgres: Postgres) -> str:
        return f"host=127.0.0.1 port={postgres.port} user=ringfence dbname={self.name}"

    def move_to(self, postgres: Postgres) -> None:
        """End the attempt, and have the next ones connect to another server."""
        self.kill()
        self.dsn = self._dsn(postgres)
        self.config["database.port"] = str(postgres.port)
        self._configured = False

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(self.dsn, autocommit=True)

    def create_topics(self, *tables: str) -> None:
        create_topics(
            self.stage.connection, [TopicSpec(f"{self.prefix}.{table}") for table in tables], Deadline.after(30)
        )

    def start(self) -> None:
        """Begin the next attempt."""
        if not self._configured:
            self.stage.configure(self.config)
            self.stage.count()
            self._configured = True
        self._attempt += 1
        spec = TaskSpec(
            self.stage.connection,
            self.stage.group,
            self.stage.topics,
            TaskId(ConnectorName("numbers"), 0),
            self.stage.place(self._attempt),
            f"{PostgresSourceConnector.task_class().__module__}.{PostgresSourceConnector.task_class().__name__}",
            self.config,
            self.config,
            {
                "offset.flush.interval.ms": "60000",
                "transaction.timeout.ms": "60000",
                "egress.allow": "public,private,loopback",
            },
        )
        log = (self.root / f"attempt-{self._attempt}.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.process", *self.hooks], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        assert self._process.stdin is not None
        self._process.stdin.write(spec.dumps().encode())
        self._process.stdin.close()

    def log(self) -> str:
        """Of the newest attempt."""
        return (self.root / f"attempt-{self._attempt}.log").read_text()

    def peak_memory(self) -> int:
        """Of the process of the newest attempt, in bytes."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def end(self) -> None:
        """SIGTERM: it commits what may be committed, and ends."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def outcome(self, seconds: float = 60) -> Mapping[str, Any]:
        """Of an attempt that ends by itself."""
        assert self._process is not None
        self._process.wait(seconds)
        self._process = None
        found: dict[str, Any] = json.loads(self.log().splitlines()[-1])
        return found

    def close(self) -> None:
        self.kill()
        self.stage.close()
        with self.connect() as connection:
            drop_slots(connection, self.name)

    def offset(self) -> Mapping[str, Any] | None:
        """The committed source offset."""
        connection, topic = self.stage.connection, self.stage.topics.offsets
        found = read_offsets(connection, topic, ConnectorName("numbers"), Deadline.after(60))
        return found.offset({"server": self.prefix})

    def await_position(self, lsn: int) -> None:
        """Wait until everything up to this position is committed in Kafka."""

        def reached() -> bool:
            offset = self.offset()
            return offset is not None and int(offset["lsn_commit"]) >= lsn

        eventually(reached, 90, lambda: f"{self.offset()} to reach {lsn}: {self.log()[-3000:]}", pause=0.3)

    def read(self, *tables: str) -> list[Seen]:
        """All records of the tables' topics, by topic, in their order."""
        return [seen for table in tables for seen in self._read(f"{self.prefix}.{table}")]

    def _read(self, topic: str) -> list[Seen]:
        found: list[Seen] = []
        after, transaction = -1, 0
        reader = Consumer(
            {"bootstrap.servers": self.stage.connection.bootstrap, "group.id": "none", "enable.partition.eof": True}
        )
        try:
            reader.assign([TopicPartition(topic, 0, 0)])
            while (message := reader.poll(30)) is not None and message.error() is None:
                offset = message.offset() or 0
                transaction += offset != after
                after = offset + 1
                key, value = (None if raw is None else json.loads(raw) for raw in (message.key(), message.value()))
                headers: Any = message.headers() or ()
                found.append(Seen(topic, key, value, list(headers), transaction))
        finally:
            reader.close()
        return found


def write_position(connection: "psycopg.Connection[tuple[Any, ...]]") -> int:
    """How far the server has written."""
    row = connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8").fetchone()
    assert row is not None
    return int(row[0])


def confirmed(stand: Stand) -> int:
    """What the server has been told."""
    with stand.connect() as connection:
        row = connection.execute(
            "SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots WHERE slot_name = %s", [stand.name]
        ).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def streamed(
    server: Postgres, database: str, tables: str, changes: Sequence[str], *, serialized: bool, **settings: str
) -> Iterator[Run]:
    """A task that has read these changes, in a new database of this name. serialized: as of `Run`."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    url = f"host=127.0.0.1 port={server.port} user=ringfence dbname={database}"
    with loopback(), psycopg.connect(url, autocommit=True) as connection:
        connection.execute(tables.encode())
        run = Run(config_of(server, database, **settings), serialized=serialized).start()
        try:
            for change in changes[:-1]:
                connection.execute(change.encode())
            before = write_position(connection)
            connection.execute(changes[-1].encode())
            run.await_position(before + 1)
            yield run
        finally:
            run.stop()
