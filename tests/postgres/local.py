"""A task of PostgresSource without Kafka: what it hands over, and the converters' bytes of it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg

from ringfence.connectors.api import OffsetRecord, RetriableError, SerializedRecords, SourceOffset, SourceRecord
from ringfence.connectors.builtin.postgres.task import PostgresSourceTask
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine.spark.task_process import Conversion
from ringfence.fencing.task.transaction_context import RequestedEndings
from tests.connectors.fakes import FakeContext, FakeOffsets
from tests.postgres.comparison import Comparable, Load, comparable, load_json
from tests.support.postgres import Postgres
from tests.support.waiting import eventually


@contextmanager
def loopback() -> Iterator[None]:
    """Connections to this machine are allowed."""
    before = worker_limits.current()
    worker_limits.declare(WorkerLimits(egress="loopback"))
    try:
        yield
    finally:
        worker_limits.declare(before)


class HasPort(Protocol):
    """Where a server listens."""

    @property
    def port(self) -> int: ...


def config_of(postgres: HasPort, database: str = "ringfence", **settings: str) -> dict[str, str]:
    """settings: of the connector, with `_` for `.`."""
    return {
        "name": "local",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "ringfence",
        "database.dbname": database,
        "slot.name": database,
        "topic.prefix": "local",
        "transaction.boundary": "connector",
        "snapshot.mode": "no_data",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


def drop_slots(connection: "psycopg.Connection[tuple[Any, ...]]", database: str) -> None:
    """Those of a database that is not needed any more: a server has few."""
    slots = "FROM pg_replication_slots WHERE database = %s OR slot_name = %s"
    connection.execute(f"SELECT pg_terminate_backend(active_pid) {slots} AND active".encode(), [database, database])

    def dropped() -> bool:
        connection.execute(
            f"SELECT pg_drop_replication_slot(slot_name) FROM (SELECT * {slots}) AS s WHERE NOT active".encode(),
            [database, database],
        )
        return connection.execute(f"SELECT count(*) {slots}".encode(), [database, database]).fetchone() == (0,)

    eventually(dropped, 60, f"the slots of {database} to be dropped", pause=0.2)


class Database:
    """A database of its own on the shared server, for one test."""

    def __init__(self, server: Postgres, name: str) -> None:
        self.server = server
        self.name = name.replace("-", "_")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name}".encode())
        self.connection = psycopg.connect(
            f"host=127.0.0.1 port={server.port} user=ringfence dbname={self.name}", autocommit=True
        )
        self.runs: list[Run] = []

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement.encode())

    def value(self, statement: str) -> Any:
        row = self.connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]

    def run(self, offset: SourceOffset | None = None, **settings: str) -> "Run":
        """A started task."""
        made = Run(config_of(self.server, self.name, **settings), offset)
        self.runs.append(made)
        return made.start()

    def again(self, run: "Run", **settings: str) -> "Run":
        """The next life: it begins with what was committed."""
        run.stop()
        made = Run({**run.config, **{key.replace("_", "."): value for key, value in settings.items()}})
        made.offsets.known = run.offsets.known
        self.runs.append(made)
        return made.start()

    def await_all(self, run: "Run") -> None:
        """Let the task deliver and commit everything up to now."""
        before = self.value("SELECT (pg_current_wal_lsn() - '0/0')::int8")
        self.execute("SELECT pg_logical_emit_message(true, 'end', 'end')")
        run.await_position(before + 1)

    def confirmed(self) -> int:
        """What the server has been told."""
        return int(
            self.value(
                f"SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots WHERE slot_name = '{self.name}'"
            )
        )

    def close(self) -> None:
        for run in self.runs:
            run.stop()
        drop_slots(self.connection, self.name)
        self.connection.close()


class Run:
    """One life of a task. `poll` takes the kernel's part: all that is handed over is committed as it was asked."""

    def __init__(
        self, config: Mapping[str, str], offset: SourceOffset | None = None, *, serialized: bool = False
    ) -> None:
        """serialized: the task may make the bytes of records itself."""
        self.config = dict(config)
        self.partition = {"server": config["topic.prefix"]}
        self.offsets = FakeOffsets([(self.partition, offset)] if offset is not None else [])
        self.task = PostgresSourceTask()
        context = FakeContext(self.offsets)
        context.converters = self.conversion.converters if serialized else None
        self.requests = context.transaction_context = RequestedEndings()
        self.task.context = context
        self.records: list[SourceRecord] = []
        self.commits: list[list[SourceRecord]] = []
        self._open: list[SourceRecord] = []

    @property
    def conversion(self) -> Conversion:
        """The converters of the configuration."""

        class Spec:
            connector_config = self.config
            worker_settings: Mapping[str, str] = {}

        return Conversion(Spec())

    @property
    def offset(self) -> SourceOffset | None:
        """The stream's."""
        return self.offsets.offset(self.partition)

    @property
    def committed(self) -> list[SourceRecord]:
        """All records that are in a commit."""
        return [record for commit in self.commits for record in commit if not isinstance(record, OffsetRecord)]

    def start(self) -> "Run":
        self.task.start(self.config)
        return self

    def poll(self) -> None:
        batch = self.task.poll()
        if batch is None:
            return
        for part in self.requests.parts(batch):
            assert isinstance(part.batch, list)
            self._open += part.batch
            self.records += [record for record in part.batch if not isinstance(record, OffsetRecord)]
            if part.ending is not None and self._open:
                for record in self._open:
                    self.offsets.put(record.source_partition, record.source_offset)
                self.commits.append(self._open)
                for record in self._open:
                    self.task.commit_record(record)
                self._open = []
                self.task.commit()

    def poll_until(self, reached: Callable[[], bool], seconds: float = 60) -> None:
        """A retriable error is met as the kernel does it."""
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, f"{len(self.records)} records, then {self.offset}"
            try:
                self.poll()
            except RetriableError:
                time.sleep(0.2)

    def await_position(self, lsn: int) -> None:
        self.poll_until(lambda: self.offset is not None and int(str(self.offset["lsn_commit"])) >= lsn)

    def stop(self) -> None:
        self.task.stop()

    def as_written(self, read: Load = load_json) -> list[Comparable]:
        """The records as the converters of the configuration write them."""
        conversion = self.conversion
        made = []
        for record in self.records:
            if isinstance(record, SerializedRecords):
                prefix, headers = self.config["topic.prefix"], record.headers
                made += [
                    comparable(record.topic, key, value, headers, prefix)
                    for key, value in zip(record.keys, record.values, strict=True)
                ]
                continue
            key = None
            if record.key is not None:
                key = conversion.key(record.topic, record.key, record.key_schema)
            value = conversion.value(record.topic, record.value, record.value_schema)
            headers = conversion.headers(record.topic, record.headers)
            made.append(comparable(record.topic, key, value, headers, self.config["topic.prefix"], read))
        return made
