"""Debezium on a PostgreSQL of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.guarantees.stage import Stage
from tests.support.java_plugins import DEBEZIUM_CLASS
from tests.support.postgres import LOGICAL, Postgres, new_postgres

JSON = "org.apache.kafka.connect.json.JsonConverter"


SNAPSHOT_ROWS = 500


class Writer:
    """Inserts and updates rows, a few in each of the database's transactions, until it is told to stop."""

    pause = 0.02

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        with psycopg.connect(self._url) as connection:
            while not self._stop.wait(self.pause):
                self.change(connection)
                connection.commit()

    def change(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        """One transaction's changes."""
        for _ in range(5):
            row = connection.execute("insert into orders(customer) values ('live') returning id").fetchone()
            assert row is not None
            connection.execute("update orders set n = n + 1 where id = %s", row)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def config_of(stage: Stage, postgres: Postgres) -> dict[str, str]:
    return {"name": str(stage.connector), **debezium_settings(postgres, stage.group), "poll.interval.ms": "100"}


def debezium_settings(postgres: Postgres, prefix: str) -> dict[str, str]:
    return {
        "connector.class": DEBEZIUM_CLASS,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "ringfence",
        "database.password": "none",
        "database.dbname": "ringfence",
        "topic.prefix": prefix,
        "table.include.list": "public.orders",
        "plugin.name": "pgoutput",
        "slot.name": "orders",
        "slot.retry.delay.ms": "500",
        "slot.max.retries": "40",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "exactly.once.support": "required",
    }


@contextmanager
def orders_postgres() -> Iterator[Postgres]:
    with new_postgres(LOGICAL) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("create table orders(id serial primary key, customer text, n int not null default 0)")
            connection.execute(
                f"insert into orders(customer) select 'c' || g from generate_series(1, {SNAPSHOT_ROWS}) g"
            )
        yield server
