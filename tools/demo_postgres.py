"""`make demo-postgres`: transfers between accounts of a private PostgreSQL, SIGKILLs, and the books at the end."""

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
import psutil
import psycopg
from confluent_kafka import Consumer, KafkaError, TopicPartition

from ringfence.commands import up
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.data_directory import default_root
from ringfence.local.errors import LocalError
from ringfence.local.running_platform import Running
from tests.support.postgres import LOGICAL, Postgres, missing_programs, new_postgres
from tools.bank import Bank

ACCOUNTS, BALANCE, TELLERS = 100, 1000, 4
JSON = "org.apache.kafka.connect.json.JsonConverter"
SECONDS = 300.0
VICTIM = "worker-1"
TABLES = """
CREATE TABLE accounts (id integer PRIMARY KEY, balance integer NOT NULL);
ALTER TABLE accounts REPLICA IDENTITY FULL;
CREATE TABLE transfers (id bigserial PRIMARY KEY, payer integer, payee integer, amount integer);
"""


def main() -> int:
    """Return 1 if a transfer is missing, was repeated, or was visible in parts."""
    parser = argparse.ArgumentParser(prog="make demo-postgres")
    up.add_arguments(parser)
    parser.add_argument("--kills", type=int, default=6, help="how many SIGKILLs (default: %(default)s)")
    parser.set_defaults(data=default_root() / "demo-postgres")
    args = parser.parse_args()
    if missing := missing_programs():
        print(f"PostgreSQL is not installed ({', '.join(missing)}): apt-get install postgresql", file=sys.stderr)
        return 1
    with new_postgres(LOGICAL) as server:
        print(f"PostgreSQL listens at 127.0.0.1:{server.port}")
        with psycopg.connect(server.url) as database:
            database.execute(TABLES.encode())
        return up.serve(args, partial(_job, server, args.kills))


def _job(server: Postgres, kills: int, running: Running) -> int:
    name = f"bank_{int(time.time())}"
    topics = [f"{name}.public.accounts", f"{name}.public.transfers"]
    connection = running.connection("demo-postgres")
    create_topics(connection, [TopicSpec(topic) for topic in topics], Deadline.after(30))
    _create(running, name, server.port)
    with psycopg.connect(server.url) as database:
        _await(lambda: database.execute("SELECT count(*) FROM pg_replication_slots WHERE active"), "the slot")
        opened = "INSERT INTO accounts SELECT g, %s FROM generate_series(1, %s) g"
        database.execute(opened.encode(), [BALANCE, ACCOUNTS])
    reader = _Reader(connection, topics)
    tellers = [_Teller(server, seed) for seed in range(TELLERS)]
    try:
        for number in range(kills):
            reader.read_more()
            print(f"{reader.bank.transfers:,} transfers have arrived; SIGKILL to {_kill(number, server, running)}")
        reader.read_more()
    finally:
        for teller in tellers:
            teller.stop()
    with psycopg.connect(server.url) as database:
        transfers = database.execute("SELECT id, payer, payee, amount FROM transfers").fetchall()
        accounts: list[tuple[int, int]] = database.execute("SELECT id, balance FROM accounts").fetchall()
    reader.read_until(lambda: reader.bank.transfers >= len(transfers))
    reader.read_for(3.0)  # a duplicate would appear after the last record
    reader.bank.finish(transfers, dict(accounts))
    for problem in reader.bank.problems:
        print(f"WRONG: {problem}")
    print(
        f"{reader.bank.transfers:,} of {len(transfers):,} transfers arrived. A consumer added up all accounts "
        f"{reader.bank.looks:,} times while they ran; {len(reader.bank.problems) or 'no'} problems"
    )
    return 1 if reader.bank.problems else 0


def _create(running: Running, name: str, port: int) -> None:
    config = {
        "connector.class": "PostgresSource",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "ringfence",
        "database.dbname": "ringfence",
        "topic.prefix": name,
        "slot.name": name,
        "snapshot.mode": "no_data",
        "transaction.boundary": "connector",
        "exactly.once.support": "required",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    answer = httpx.post(f"{running.url}/connectors", json={"name": name, "config": config}, timeout=120)
    if answer.status_code != 201:
        raise LocalError(f"The connector could not be created: {answer.text}")
    print(f"connector {name}: {running.url}/ui/connectors/{name}")


def _await(ask: Callable[[], "psycopg.Cursor[tuple[Any, ...]]"], what: str) -> None:
    end = time.monotonic() + SECONDS
    while ask().fetchone() != (1,):
        if time.monotonic() > end:
            raise LocalError(f"{what} did not arrive within {SECONDS:.0f} s: see the connector's page")
        time.sleep(0.2)


class _Teller:
    """Makes transfers until it is stopped, also across restarts of the server."""

    def __init__(self, server: Postgres, seed: int) -> None:
        self._server = server
        self._choice = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            # After the server was killed, its table shows whether the last transfer was made.
            with suppress(psycopg.OperationalError), psycopg.connect(self._server.url) as database:
                while not self._stopping.wait(0.005):
                    self._transfer(database)
            self._stopping.wait(0.5)

    def _transfer(self, database: "psycopg.Connection[tuple[Any, ...]]") -> None:
        payer, payee = self._choice.sample(range(1, ACCOUNTS + 1), 2)
        amount = self._choice.randint(1, 50)
        with database.transaction():
            for account in sorted((payer, payee)):  # always in the same order, so that two tellers do not deadlock
                change = -amount if account == payer else amount
                database.execute("UPDATE accounts SET balance = balance + %s WHERE id = %s", [change, account])
            statement = "INSERT INTO transfers (payer, payee, amount) VALUES (%s, %s, %s)"
            database.execute(statement, [payer, payee, amount])

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)


class _Reader:
    """A read_committed consumer that adds up all accounts after each Kafka transaction that it has read completely.

    It recognises transactions by the markers between them, which have offsets but are not records.
    """

    def __init__(self, connection: Connection, topics: list[str]) -> None:
        self.bank = Bank()
        self._accounts = topics[0]
        self._next = 0
        self._newest_ms = 0
        more = {"group.id": "none", "enable.auto.commit": False, "enable.partition.eof": True}
        self._consumer = Consumer({**connection.librdkafka(), **more, "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])

    def read_until(self, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not reached():
            if time.monotonic() > end:
                raise LocalError(f"Nothing more arrived within {SECONDS:.0f} s: see the connector's page")
            self._read()

    def read_more(self) -> None:
        """Read until 200 more transfers have arrived, and one that was written after this call: the pipeline works
        again.
        """
        most, now_ms = self.bank.transfers + 200, time.time() * 1000
        self.read_until(lambda: self.bank.transfers >= most and self._newest_ms >= now_ms)

    def read_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read()

    def _read(self) -> None:
        for message in self._consumer.consume(1000, 0.2):
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF and message.topic() == self._accounts:
                    self.bank.look()
            elif (value := message.value()) is not None:
                if message.topic() == self._accounts:
                    if message.offset() != self._next:
                        self.bank.look()
                    self._next = (message.offset() or 0) + 1
                    self.bank.add_account(json.loads(value))
                else:
                    self.bank.add_transfer(json.loads(value))
                    self._newest_ms = message.timestamp()[1]


def _kill(number: int, server: Postgres, running: Running) -> str:
    """Kill in turn: the tasks' processes, the worker, the database server, which is started again."""
    if number % 3 == 0:
        tasks = [one for one in psutil.Process().children(recursive=True) if "spark.daemon" in _command(one)]
        for one in tasks:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        return f"{len(tasks)} processes of the tasks"
    if number % 3 == 1:
        os.kill(int(running.instance.pid_file(VICTIM).read_text()), signal.SIGKILL)
        return VICTIM
    server.kill()
    server.start()
    return "the database server (all of its processes)"


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


if __name__ == "__main__":
    sys.exit(main())
