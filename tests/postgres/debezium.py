"""Debezium's own connector under the real Kafka Connect: what it makes of the script of changes.

`python -m tests.postgres.debezium` writes what a run of it gave to the file that the quick test compares with.
"""

import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import psycopg
from confluent_kafka import Consumer, TopicPartition

from benchmarks.connect import ConnectWorker
from ringfence.local.jars import Coordinate
from tests.postgres.changes import CHANGES, TABLES
from tests.postgres.comparison import Comparable, Load, comparable, load_json
from tests.support.broker import running_kafka
from tests.support.postgres import LOGICAL, Postgres, new_postgres
from tests.support.waiting import eventually

PLUGIN: Final = Coordinate("io.debezium", "debezium-connector-postgres", "3.7.0.Final")
KEPT: Final = Path(__file__).with_name("debezium.json.gz")
SETTINGS: Final = {
    "topic.prefix": "compared",
    "schema.include.list": "shop",
    "snapshot.mode": "no_data",
    "skipped.operations": "none",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
"""Of both connectors."""


class Script(NamedTuple):
    """Tables, and what is done to them. last: the topic of the last change; is_last: tells its key from others."""

    tables: str
    changes: Sequence[str]
    last: str
    is_last: Callable[[Any], bool]


USUAL: Final = Script(TABLES, CHANGES, "compared.shop.two_keys", lambda key: key.get("a") == "end")


@contextmanager
def running_connect(root: Path, converters: Sequence[Coordinate] = ()) -> Iterator[tuple[ConnectWorker, str]]:
    """Kafka Connect with Debezium, and the addresses of its broker."""
    with ExitStack() as stack:
        kafka = stack.enter_context(running_kafka(root))
        worker = ConnectWorker(root / "connect", kafka.bootstrap, (PLUGIN, *converters), short_lived=True)
        stack.callback(worker.stop)
        worker.start()
        yield worker, kafka.bootstrap


def run(
    root: Path,
    settings: Mapping[str, str] = SETTINGS,
    converters: Sequence[Coordinate] = (),
    read: Load = load_json,
    script: Script = USUAL,
) -> list[Comparable]:
    """Debezium's records of all changes, by topic; settings: of the connector."""
    with new_postgres(LOGICAL) as postgres, running_connect(root, converters) as (worker, bootstrap):
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(script.tables.encode())
            _create(worker.url, postgres, settings)
            slot = "SELECT count(*) FROM pg_replication_slots WHERE active"
            eventually(lambda: connection.execute(slot).fetchone() == (1,), 90, "Debezium to stream", pause=0.5)
            for change in script.changes:
                connection.execute(change.encode())
        return _read(bootstrap, read, script)


def connection_settings(postgres: Postgres) -> dict[str, str]:
    """Of Debezium's connector, for this server."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "ringfence",
        "database.password": "none",
        "database.dbname": "ringfence",
    }


def _create(url: str, postgres: Postgres, settings: Mapping[str, str]) -> None:
    config = {**connection_settings(postgres), **settings}
    answer = httpx.put(f"{url}/connectors/compared/config", json=config, timeout=90)
    assert answer.status_code == 201, answer.text


def _read(bootstrap: str, read: Load, script: Script) -> list[Comparable]:
    """Everything, once the last change is there."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    found: list[Comparable] = []
    try:

        def is_there() -> bool:
            topics = reader.list_topics(timeout=10).topics
            ends = (
                [reader.get_watermark_offsets(TopicPartition(script.last, 0), 10)[1]] if script.last in topics else [0]
            )
            keys = [each[1] for each in _all() if each[0] == script.last and each[1]] if ends[0] else []
            return any(script.is_last(read(key, "compared")["payload"]) for key in keys)

        def _all() -> list[tuple[str, bytes | None, bytes | None, list[Any]]]:
            everything = []
            topics = [name for name in reader.list_topics(timeout=10).topics if name.startswith("compared")]
            for topic in topics:
                reader.assign([TopicPartition(topic, 0, 0)])
                _, end = reader.get_watermark_offsets(TopicPartition(topic, 0), 10)
                while reader.position([TopicPartition(topic, 0)])[0].offset < end:
                    message = reader.poll(5)
                    if message is None:
                        break
                    everything.append((topic, message.key(), message.value(), list(message.headers() or ())))
            return everything

        eventually(is_there, 90, "Debezium's last record", pause=1)
        found = [comparable(*each, "compared", read) for each in _all()]
    finally:
        reader.close()
    return found


def kept(file: Path = KEPT) -> list[Comparable]:
    """Of an earlier run."""
    return [
        (topic, key, value, tuple(headers))
        for topic, key, value, headers in json.loads(gzip.decompress(file.read_bytes()))
    ]


def keep(records: Sequence[Comparable], file: Path = KEPT) -> None:
    """For the quick test."""
    file.write_bytes(gzip.compress(json.dumps(records).encode(), mtime=0))
    sys.stdout.write(f"{len(records)} records\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        records = run(Path(folder))
    keep(records)
