"""`python -m benchmarks java`: Kafka Connect's own plugins, the same jars, in Ringfence and in Kafka Connect.

FileStreamSource with StringConverter, and Debezium's PostgreSQL connector with JsonConverter: a snapshot, and a stream
of inserts. Also the time until a Java task is ready, and its memory.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import psutil
import psycopg

from benchmarks import lines
from benchmarks.connect import FILE, JSON_CONVERTER, STRING_CONVERTER
from benchmarks.java_page import FILES, JOBS, STREAMS, Job, page, table, targets
from benchmarks.machine import describe, load
from benchmarks.numbers import Numbers, medians, numbers
from benchmarks.processes import MIB, Tree, memory_of
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.stand import CONNECT, OURS, Stand
from benchmarks.starts_of_java import debezium, file_stream, measure
from benchmarks.watch import Observation, observe
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.admin import TopicSpec, create_topics, delete_topics
from ringfence.local.errors import LocalError
from ringfence.local.jars import Coordinate, resolve
from ringfence.local.process import wait_until
from tests.support.postgres import Postgres, new_postgres

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks-java.md"
DEBEZIUM = Coordinate("io.debezium", "debezium-connector-postgres", "3.7.0.Final")
SIDES = (CONNECT, OURS)
SECONDS = 400.0  # a loaded machine needs more time
Config = dict[str, str]


class JavaTasks:
    """The maximum memory of a task's JVM, sampled twice a second inside `with`."""

    def __init__(self, pid: int) -> None:
        self._tree = Tree(pid)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.rss = 0

    def __enter__(self) -> "JavaTasks":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.5):
            self._tree.cpu_seconds()  # this lists the processes
            for pid in self._tree.task_processes():
                for java in _java_of(pid):
                    self.rss = max(self.rss, memory_of(java).rss)


def _java_of(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children() if child.name() == "java"]
    except psutil.NoSuchProcess:
        return []


class JavaRuns:
    """The jobs' runs on one stand."""

    def __init__(self, stand: Stand, root: Path, postgres: Postgres) -> None:
        self._stand = stand
        self._root = root
        self._postgres = postgres
        self._number = 0
        self.java_mib: dict[str, float] = {}
        self.loads: dict[str, list[float]] = {}

    def measured(self, job: Job, rounds: int) -> dict[str, list[Numbers]]:
        """Run each side in turn, after an unmeasured run of each."""
        found: dict[str, list[Numbers]] = {side: [] for side in SIDES}
        for number in range(rounds + 1):
            for side in SIDES:
                seen = self._run(job, side)
                one = numbers(seen, job.count, interval=job.name == "file")
                self.loads.setdefault(job.name, []).append(os.getloadavg()[0])
                if number:
                    found[side].append(one)
                print(
                    f"{job.name} {number}/{rounds} {side:13} {one.records_s:>9,.0f} records/s "
                    f"{one.cpu_s_per_million:.2f} CPU s/million, first after {one.first_s:.2f} s, load {load()}",
                    flush=True,
                )
        return found

    def _run(self, job: Job, side: str) -> Observation:
        self._number += 1
        name = f"java{self._number}"
        topic = name if job.name in FILES else f"{name}.public.t{self._number}"
        create_topics(self._stand.connection, [TopicSpec(topic)], Deadline.after(30))
        worker = self._stand.sides[side]
        try:
            with JavaTasks(worker.pid) as java, Rest(worker.url) as rest:
                config, fill = self._prepare(job, name, topic)
                rest.create(name, config)
                try:
                    fill(rest)
                    return observe(
                        self._stand.bootstrap, topic, job.count, worker.pid, lambda: rest.trouble(name), SECONDS
                    )
                finally:
                    rest.delete(name)
        finally:
            if side == OURS:
                self.java_mib[job.name] = max(self.java_mib.get(job.name, 0.0), java.rss / MIB)
            delete_topics(self._stand.connection, [topic], Deadline.after(30))
            if job.name not in FILES:
                self._drop(name, f"t{self._number}")

    def _prepare(self, job: Job, name: str, topic: str) -> tuple[Config, Callable[[Rest], None]]:
        """Return the configuration, and a function that fills the source after the connector was created."""
        if job.name in FILES:
            path = self._root / f"{job.count}.txt"
            if not path.exists():
                lines.write(path, job.count)
            return _file_config(job, path, topic), lambda _rest: None
        table = f"t{self._number}"
        insert = (
            f"insert into {table}(customer, amount, paid, note) select 'customer ' || g, g * 1.5, g % 2 = 0, "
            f"'a note of some length for row ' || g from generate_series(1, {job.count}) g"
        )
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            database.execute(
                f"create table {table}(id serial primary key, customer text, amount float8, paid bool, note text)"
            )
            if job.name not in STREAMS:
                database.execute(insert)
        config = debezium_config(
            self._postgres, name, f"public.{table}", "no_data" if job.name in STREAMS else "initial"
        )

        def fill(rest: Rest) -> None:
            if job.name not in STREAMS:
                return
            if not wait_until(lambda: rest.running(name) == 1 and self._streams(name), SECONDS):
                raise BenchmarkError(f"{name} did not begin to stream: {rest.trouble(name)}")
            with psycopg.connect(self._postgres.url, autocommit=True) as database:
                database.execute(insert)

        return config, fill

    def _streams(self, slot: str) -> bool:
        with psycopg.connect(self._postgres.url) as database:
            found = database.execute("select active from pg_replication_slots where slot_name = %s", (slot,)).fetchone()
        return found == (True,)

    def _drop(self, slot: str, table: str) -> None:
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            wait_until(lambda: not self._streams(slot), 30)
            database.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s", (slot,)
            )
            database.execute(f"drop table {table}")
            database.execute(f"drop publication if exists {slot}")


def _file_config(job: Job, path: Path, topic: str) -> Config:
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000", "batch.size": "2000"}
    poll = {"transaction.boundary": "poll", "batch.size": "4000"}
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(path),
        "topic": topic,
        "key.converter": STRING_CONVERTER,
        "value.converter": STRING_CONVERTER,
        "exactly.once.support": "required",
        **(interval if job.name == "file" else poll),
    }


def debezium_config(postgres: Postgres, name: str, table: str, mode: str) -> Config:
    """Return the configuration of a connector with its own slot and publication."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": postgres.url.rpartition(":")[2].partition("/")[0],
        "database.user": "ringfence",
        "database.password": "none",
        "database.dbname": "ringfence",
        "topic.prefix": name,
        "table.include.list": table,
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "snapshot.mode": mode,
        "poll.interval.ms": "100",
        "key.converter": JSON_CONVERTER,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON_CONVERTER,
        "value.converter.schemas.enable": "false",
        "exactly.once.support": "required",
    }


@contextmanager
def logical_postgres() -> Iterator[Postgres]:
    """Yield a private server that Debezium can read."""
    with new_postgres() as server:
        with psycopg.connect(server.url, autocommit=True) as database:
            database.execute("alter system set wal_level = logical")
            database.execute("alter system set max_replication_slots = 20")
        server.stop()
        server.start()
        yield server


def plugin_path(root: Path) -> Path:
    """Return a folder with both plugins, each in a folder."""
    folder = root / "plugins"
    folder.mkdir(parents=True)
    for plugin in (FILE, DEBEZIUM):
        (folder / plugin.artifact).symlink_to(resolve(plugin.artifact, [plugin]))
    return folder


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks java", description=__doc__)
    parser.add_argument("--job", nargs="+", choices=[job.name for job in JOBS], help="only these (default: all)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measured rounds (default: 3)")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="on a machine with other work; needs root")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="ringfence-java-bench-"))
    machine = describe() | {"measured rounds": str(args.rounds), "load before the runs": load()}
    jobs = [job for job in JOBS if args.job is None or job.name in args.job]
    try:
        plugins = plugin_path(root)
        with logical_postgres() as postgres:
            starts = [measure(file_stream(root), plugins), measure(debezium(debezium_config, postgres), plugins)]
            print("\n".join(map(str, starts)), flush=True)
            settings = {"CONNECT_PLUGIN_PATH": str(plugins)}
            with Stand(root, (DEBEZIUM,), args.nice, settings=settings) as stand:
                java = JavaRuns(stand, root, postgres)
                runs = {job: java.measured(job, args.rounds) for job in jobs}
    except (BenchmarkError, LocalError) as error:
        print(f"benchmarks: {error}\nlogs: {root}", file=sys.stderr)
        return 1
    finally:
        for big in (root / "kafka", *root.glob("*.txt")):
            shutil.rmtree(big) if big.is_dir() else big.unlink(missing_ok=True)
    machine |= {f"load in `{name}`": f"{min(each):.0f} to {max(each):.0f}" for name, each in java.loads.items()}
    found = {job: {side: medians(each) for side, each in sides.items()} for job, sides in runs.items()}
    print(f"\n{table(found)}\n\n{targets(found, starts, java.java_mib)}\n{time.strftime('%H:%M')}")
    record = {
        job.name: {side: [asdict(one) for one in each] for side, each in sides.items()} for job, sides in runs.items()
    }
    (root / "results.json").write_text(json.dumps(record, indent=2))
    if args.write:
        PAGE.write_text(page(found, starts, java.java_mib, machine))
        print(f"written: {PAGE}")
    return 0
