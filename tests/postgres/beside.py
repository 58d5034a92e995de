"""PostgresSource and Debezium beside each other: the same database, settings and changes, one Kafka Connect worker."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import psycopg
from confluent_kafka import Consumer, TopicPartition

from benchmarks.connect import ConnectWorker
from ringfence.connectors.api import SerializedRecords
from ringfence.local.jars import Coordinate
from tests.postgres.comparison import Comparable, Load, by_topic, comparable, load_json
from tests.postgres.debezium import connection_settings, running_connect
from tests.postgres.generated import LAST, SCHEMA, Generated
from tests.postgres.local import Run, config_of
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

_MOST_BYTES: Final = 10_000_000
Raw = tuple[str, bytes | None, bytes | None, list[Any]]


class Variant(NamedTuple):
    """Settings of both connectors. theirs, ours: of one of them; read: reads what the converters have written;
    serialized: whether our task makes the bytes itself.
    """

    name: str
    settings: Mapping[str, str]
    theirs: Mapping[str, str] = {}
    ours: Mapping[str, str] = {}
    read: Load = load_json
    serialized: bool = False


class Both(NamedTuple):
    """The records of both connectors, by topic."""

    theirs: dict[str, list[Comparable]]
    ours: dict[str, list[Comparable]]


class _Side:
    """One variant: Debezium's connector in the worker, and our task in this process."""

    def __init__(self, variant: Variant, postgres: Postgres, worker: ConnectWorker, bootstrap: str) -> None:
        self.variant = variant
        self._worker = worker
        self._bootstrap = bootstrap
        self._prefix = f"qqtheirs{variant.name}"
        common = {
            "schema.include.list": SCHEMA,
            "snapshot.mode": "initial",
            "skipped.operations": "none",
            "signal.data.collection": f"public.signals_{variant.name}",
            **variant.settings,
        }
        self._config = {
            **connection_settings(postgres),
            "slot.name": f"theirs_{variant.name}",
            "topic.prefix": self._prefix,
            "poll.interval.ms": "50",
            "producer.override.max.request.size": str(_MOST_BYTES),
            **common,
            **variant.theirs,
        }
        names = {"slot.name": f"ours_{variant.name}", "topic.prefix": f"qqours{variant.name}"}
        config = {**config_of(postgres, "ringfence"), **common, **names, **variant.ours}
        self.run = Run(config, serialized=variant.serialized).start()
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer({**settings, "enable.partition.eof": True})
        self._markers = Consumer({**settings, "topic.metadata.refresh.interval.ms": 200})
        self._markers.assign([TopicPartition(f"{self._prefix}.{SCHEMA}.{LAST}", 0, 0)])
        self._seen_markers = 0

    def read_snapshot(self) -> None:
        """Let our task read the rows, before Debezium's begins: ours would wait for its transaction."""
        self.run.poll_until(lambda: self._count_ours() == 1)

    def start_debezium(self) -> None:
        url = f"{self._worker.url}/connectors/{self.variant.name}/config"
        answer = httpx.put(url, json=self._config, timeout=90)
        assert answer.status_code == 201, answer.text

    def await_markers(self, count: int, *, ours: bool = True) -> None:
        """Wait until both have written as many records of the last table."""
        if ours:
            self.run.poll_until(lambda: self._count_ours() == count)
        eventually(lambda: self._count_theirs() == count, 120, f"Debezium's marker {count}, {self.status()}", pause=0.1)

    def _count_ours(self) -> int:
        return sum(
            len(record.values) if isinstance(record, SerializedRecords) else 1
            for record in self.run.records
            if record.topic.endswith(f".{LAST}")
        )

    def _count_theirs(self) -> int:
        status = self.status()
        assert '"FAILED"' not in status, status
        while (message := self._markers.poll(0.05)) is not None:
            self._seen_markers += message.error() is None
        return self._seen_markers

    def status(self) -> str:
        return httpx.get(f"{self._worker.url}/connectors/{self.variant.name}/status").text[:3000]

    def _all(self, topic: str) -> Sequence[Raw]:
        messages: list[Raw] = []
        partition = TopicPartition(topic, 0, 0)
        self._consumer.assign([partition])
        while (message := self._consumer.poll(30)) is not None and message.error() is None:
            messages.append((topic, message.key(), message.value(), list(message.headers() or ())))
        return messages

    def both(self) -> Both:
        """All records."""
        topics = [name for name in self._consumer.list_topics(timeout=10).topics if name.startswith(self._prefix)]
        theirs = [comparable(*each, self._prefix, self.variant.read) for topic in topics for each in self._all(topic)]
        return Both(by_topic(theirs), by_topic(self.run.as_written(self.variant.read)))

    def close(self) -> None:
        self.run.stop()
        self._consumer.close()
        self._markers.close()


def run(
    root: Path,
    postgres: Postgres,
    generated: Generated,
    variants: Sequence[Variant],
    converters: Sequence[Coordinate] = (),
) -> dict[str, Both]:
    """The records of both, for each variant: of the rows, of the changes, and of an incremental snapshot."""
    with ExitStack() as stack:
        worker, bootstrap = stack.enter_context(running_connect(root, converters))
        connection = stack.enter_context(psycopg.connect(postgres.url, autocommit=True))

        def execute(*statements: str) -> None:
            for statement in statements:
                connection.execute(statement.encode())

        signals = [
            f"CREATE TABLE public.signals_{v.name} (id text PRIMARY KEY, type text, data text)" for v in variants
        ]
        execute(*generated.tables, *generated.rows, *signals, "CREATE PUBLICATION dbz_publication FOR ALL TABLES")
        sides = []
        for variant in variants:
            sides.append(_Side(variant, postgres, worker, bootstrap))
            stack.callback(sides[-1].close)
        for side in sides:
            side.read_snapshot()
        for side in sides:
            side.start_debezium()
        active = "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name LIKE 'theirs%'"
        eventually(
            lambda: connection.execute(active).fetchone() == (len(variants),),
            120,
            lambda: "\n".join(side.status() for side in sides),
            pause=0.2,
        )
        _await_all(sides, 1)
        for number, changes in enumerate(generated.changes, 1):
            execute(*changes, f"INSERT INTO {SCHEMA}.{LAST} VALUES ({number})")
            _await_all(sides, number + 1)
        tables = json.dumps({"data-collections": [f"{SCHEMA}.{name}" for name in generated.names]})
        execute(
            *(f"INSERT INTO public.signals_{v.name} VALUES ('1', 'execute-snapshot', '{tables}')" for v in variants)
        )
        _await_all(sides, 2 * len(generated.changes) + 2)
        return {side.variant.name: side.both() for side in sides}


def _await_all(sides: Sequence[_Side], markers: int) -> None:
    for side in sides:
        side.await_markers(markers)
