"""`python -m benchmarks postgres`: PostgresSource and Debezium's connector in the real Kafka Connect, on one server.

A stream of inserts in transactions of 100 rows, a snapshot of a table with the same number of rows, and the time until
a commit is visible at 200 transactions per second. In the same run, the rate of `pg_recvlogical` shows what the server
can send.
"""

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median, quantiles

import psycopg
from confluent_kafka import Consumer, TopicPartition

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.java_sources import DEBEZIUM, debezium_config
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import Numbers, medians, numbers
from benchmarks.pg_recvlogical import receive_backlog, receive_meanwhile
from benchmarks.postgres_page import (
    IN_ONE,
    PAGE,
    RATE,
    TWO_TASKS,
    Latency,
    ReceiveRates,
    page,
    snapshot_table,
    table,
    targets,
)
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.stand import CONNECT, OURS, Stand
from benchmarks.watch import observe
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.guarded_process import wait_until
from tests.support.postgres import LOGICAL, Postgres, new_postgres

TABLE = (
    "t (id bigserial PRIMARY KEY, customer text, amount float8, paid bool, at timestamptz DEFAULT clock_timestamp())"
)
SECONDS = 180.0


class PostgresRuns:
    """The runs with one broker and one server; each has its own table, topic, slot and publication."""

    def __init__(self, stand: Stand, postgres: Postgres, rows: int) -> None:
        self._stand = stand
        self._postgres = postgres
        self._rows = rows
        self._number = 0

    def stream(self, side: str) -> Numbers:
        """All rows are inserted during the stream, faster than any side reads them."""
        name, topic = self._prepare()
        worker = self._stand.sides[side]
        with Rest(worker.url) as rest:
            self._begin(rest, side, name)
            try:
                writer = threading.Thread(target=self._fill, args=(name,))
                writer.start()
                observation = observe(
                    self._stand.bootstrap, topic, self._rows, worker.pid, lambda: rest.trouble(name), SECONDS
                )
                writer.join()
                return numbers(observation, self._rows, interval=False)
            finally:
                rest.delete(name)

    def snapshot(self, side: str, tasks: int = 1) -> Numbers:
        """All rows exist before the connector is created."""
        name, topic = self._prepare()
        self._fill(name)
        worker = self._stand.sides[side]
        with Rest(worker.url) as rest:
            rest.create(name, self._config(side, name, "initial") | {"tasks.max": str(tasks)})
            try:
                observation = observe(
                    self._stand.bootstrap, topic, self._rows, worker.pid, lambda: rest.trouble(name), SECONDS
                )
                return numbers(observation, self._rows, interval=False)
            finally:
                rest.delete(name)

    def latency(self, side: str, seconds: float) -> Latency:
        """Measure at 200 transactions of one row per second."""
        name, topic = self._prepare()
        worker = self._stand.sides[side]
        count = int(seconds * RATE)
        with Rest(worker.url) as rest:
            self._begin(rest, side, name)
            try:
                writer = threading.Thread(target=self._insert_steadily, args=(name, count))
                writer.start()
                latencies = _arrivals(self._stand.bootstrap, topic, count)
                writer.join()
            finally:
                rest.delete(name)
        measured_latencies = latencies[len(latencies) // 5 :]  # the rest is a warm-up
        return Latency(median(measured_latencies), quantiles(measured_latencies, n=100)[98], len(measured_latencies))

    def received_meanwhile(self) -> float:
        """Return the rows per second that `pg_recvlogical` receives while they are inserted, as in `stream`."""
        name = self._prepare_slot()
        return receive_meanwhile(self._postgres.url, name, self._rows, lambda: self._fill(name))

    def received_afterwards(self) -> float:
        """Return the same for rows that were inserted before."""
        name = self._prepare_slot()
        self._fill(name)
        return receive_backlog(self._postgres.url, name, self._rows)

    def _prepare_slot(self) -> str:
        name, _ = self._prepare()
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            database.execute(f"CREATE PUBLICATION {name} FOR TABLE {name}".encode())
            database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
        return name

    def _prepare(self) -> tuple[str, str]:
        self._number += 1
        name = f"pg{self._number}"
        topic = f"{name}.public.{name}"
        create_topics(self._stand.connection, [TopicSpec(topic)], Deadline.after(30))
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            database.execute(f"CREATE TABLE {name}{TABLE[1:]}".encode())
        return name, topic

    def _begin(self, rest: Rest, side: str, name: str) -> None:
        rest.create(name, self._config(side, name, "no_data"))
        if not wait_until(lambda: rest.running(name) == 1 and self._streams(name), SECONDS):
            raise BenchmarkError(f"{name} did not begin to stream: {rest.trouble(name)}")

    def _config(self, side: str, name: str, mode: str) -> dict[str, str]:
        config = debezium_config(self._postgres, name, f"public.{name}", mode)
        if side == OURS:
            config |= {"connector.class": "PostgresSource", "transaction.boundary": "connector"}
            del config["poll.interval.ms"], config["database.password"]
        return config

    def _streams(self, slot: str) -> bool:
        with psycopg.connect(self._postgres.url) as database:
            row = database.execute("SELECT active FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()
        return row == (True,)

    def _fill(self, table: str) -> None:
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            database.execute("SET synchronous_commit = off")  # otherwise the disk's flushes would be measured
            database.execute(
                f"DO $$ BEGIN FOR i IN 1..{self._rows // IN_ONE} LOOP "
                f"INSERT INTO {table} (customer, amount, paid) SELECT 'customer ' || g, g * 1.5, g % 2 = 0 "
                f"FROM generate_series(1, {IN_ONE}) g; COMMIT; END LOOP; END $$".encode()
            )

    def _insert_steadily(self, table: str, count: int) -> None:
        insert = f"INSERT INTO {table} (customer, amount, paid) VALUES ('customer', 1.5, true)".encode()
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            due = time.monotonic()
            for _ in range(count):
                database.execute(insert)
                due += 1 / RATE
                time.sleep(max(0.0, due - time.monotonic()))


def _arrivals(bootstrap: str, topic: str, count: int) -> list[float]:
    """Return each record's age on arrival, in milliseconds: server and consumer have the same clock."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "fetch.wait.max.ms": 5,
            "isolation.level": "read_committed",
        }
    )
    ages: list[float] = []
    end = time.monotonic() + SECONDS
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        while len(ages) < count:
            if time.monotonic() > end:
                raise BenchmarkError(f"{len(ages)} of {count} records arrived within {SECONDS:.0f} s")
            for message in reader.consume(500, 0.05):
                if message.error() is None and (value := message.value()) is not None:
                    ages.append(time.time() * 1000 - json.loads(value)["source"]["ts_us"] / 1000)
    finally:
        reader.close()
    return ages


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("postgres", __doc__, PAGE, nice=True)
    parser.add_argument("--rows", type=int, default=300_000, metavar="N", help="of a stream (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measured rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=30, metavar="S", help="of steady inserts (default: 30)")
    args = parser.parse_args(argv)
    machine = describe() | {"load before the runs": load()}
    by_side: dict[str, list[Numbers]] = {CONNECT: [], OURS: []}
    shots: dict[str, list[Numbers]] = {CONNECT: [], OURS: [], TWO_TASKS: []}
    received = ReceiveRates([], [])
    with (
        new_folder("postgres") as root,
        new_postgres(LOGICAL) as postgres,
        Stand(root, (DEBEZIUM,), args.nice) as stand,
    ):
        runs = PostgresRuns(stand, postgres, args.rows)
        for number in range(args.rounds + 1):
            for side in (CONNECT, OURS):
                one = runs.stream(side)
                if number:
                    by_side[side].append(one)
                text = f"{one.records_s:>9,.0f} rows/s {one.cpu_s_per_million:.1f} CPU s/million"
                print(f"stream {number}/{args.rounds} {side:13} {text}, load {load()}", flush=True)
            for who, side, tasks in ((CONNECT, CONNECT, 1), (OURS, OURS, 1), (TWO_TASKS, OURS, 2)):
                one = runs.snapshot(side, tasks)
                if number:
                    shots[who].append(one)
                text = f"{one.records_s:>9,.0f} rows/s {one.cpu_s_per_million:.1f} CPU s/million"
                print(f"snapshot {number}/{args.rounds} {who:20} {text}, load {load()}", flush=True)
            received.meanwhile.append(runs.received_meanwhile())
            received.afterwards.append(runs.received_afterwards())
            text = f"{received.meanwhile[-1]:,.0f} rows/s, of a backlog {received.afterwards[-1]:,.0f}"
            print(f"pg_recvlogical {text}, load {load()}", flush=True)
        latencies = {side: runs.latency(side, args.seconds) for side in (CONNECT, OURS)}
    machine["load after the runs"] = load()
    streams = {side: medians(each) for side, each in by_side.items()}
    snapshots = {who: medians(each) for who, each in shots.items()}
    text = "\n\n".join(
        (
            table(streams, latencies, received),
            snapshot_table(snapshots),
            targets(streams, snapshots, latencies, received),
        )
    )
    print(f"\n{text}")
    record = {side: [asdict(one) for one in each] for side, each in by_side.items()}
    (root / "results.json").write_text(json.dumps(record, indent=2))
    if args.write:
        write_page(PAGE, page(text, args.rounds, args.rows, foot(machine)))
    return 0
