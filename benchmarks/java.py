"""`python -m benchmarks java`: Kafka Connect's own plugins, the same jars, in Ringfence and beside it in Kafka Connect.

FileStreamSource through StringConverter, and Debezium's PostgreSQL connector through JsonConverter: a snapshot, and a
stream of inserts. Also how soon a Java task is ready, and its memory.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import psycopg

from benchmarks import lines
from benchmarks.command import new_folder, new_parser, remove_data, write_page
from benchmarks.java_memory import JavaTasks
from benchmarks.java_page import FILES, FIRST, JOBS, NEW, SHARED, STREAMS, WARM, Job, Results, page, tables, targets
from benchmarks.java_sources import DEBEZIUM, Config, debezium_config, file_config, plugin_path
from benchmarks.machine import describe, load
from benchmarks.numbers import Numbers, medians, numbers
from benchmarks.processes import MIB
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.stand import CONNECT, OURS, Stand
from benchmarks.starts_of_java import debezium, file_stream, measure, measure_many
from benchmarks.watch import Observation, observe
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.local.guarded_process import wait_until
from tests.support.postgres import LOGICAL, Postgres, new_postgres
from tests.support.shared_jvms import running_jvms

PAGE = Path(__file__).resolve().parent / "results" / "java.md"
WORKERS = (CONNECT, OURS)
SIDES = (*WORKERS, SHARED)
SHARE = {"java.process": "shared"}
MANY = 10
SECONDS = 400.0  # a loaded machine takes its time
Runs = dict[str, Numbers]
"""Of one task, by FIRST, or by NEW and WARM."""


class JavaRuns:
    """The jobs' runs on one stand."""

    def __init__(self, stand: Stand, root: Path, postgres: Postgres) -> None:
        self._stand = stand
        self._root = root
        self._postgres = postgres
        self._number = 0
        self.java_mib: dict[str, float] = {}
        self.loads: dict[str, list[float]] = {}

    def measured(self, job: Job, rounds: int) -> dict[str, list[Runs]]:
        """Each side in turns, after a run of each that is not measured."""
        runs: dict[str, list[Runs]] = {side: [] for side in SIDES}
        with self._shared_jvm_in_use():
            for number in range(rounds + 1):
                for side in SIDES:
                    one = self._run(job, side, warm=bool(number))
                    if number:
                        runs[side].append(one)
                    self._report(f"{job.name} {number}/{rounds}", side, one)
        return runs

    @contextmanager
    def _shared_jvm_in_use(self) -> Iterator[None]:
        """Otherwise it ends while the other sides are measured: a connector whose file stays empty uses it."""
        empty = self._root / "empty"
        empty.touch()
        config = file_config("interval", empty, "empty") | SHARE
        with Rest(self._stand.sides[OURS].url) as rest:
            rest.create("keeps-the-jvm", config)
            try:
                if not wait_until(lambda: rest.running("keeps-the-jvm") == 1, SECONDS):
                    raise BenchmarkError(f"the shared JVM did not start: {rest.trouble('keeps-the-jvm')}")
                yield
            finally:
                rest.delete("keeps-the-jvm")

    def measured_first(self, job: Job, rounds: int) -> dict[str, list[Runs]]:
        """Each side in turns, as the first task after a start of both workers."""
        runs: dict[str, list[Runs]] = {side: [] for side in WORKERS}
        for number in range(rounds):
            self._stand.restart()
            for side in WORKERS:  # a shared JVM has not ended yet
                one = {FIRST: self._run(job, side, warm=False)[NEW]}
                runs[side].append(one)
                self._report(f"{job.name} {number + 1}/{rounds}", side, one)
        return runs

    def _report(self, run: str, side: str, runs: Runs) -> None:
        for kind, each in runs.items():
            print(
                f"{run} {side:13} {kind:8} {each.records_s:>9,.0f} records/s "
                f"{each.cpu_s_per_million:.2f} CPU s/million, first after {each.first_s:.2f} s, load {load()}",
                flush=True,
            )

    def _run(self, job: Job, side: str, warm: bool) -> Runs:
        """Of one new task. warm: it goes on, and is measured again once it has passed `job.between` records more."""
        self._number += 1
        name = f"java{self._number}"
        topic = name if job.name in FILES else f"{name}.public.t{self._number}"
        create_topics(self._stand.connection, [TopicSpec(topic)], Deadline.after(30))
        worker = self._stand.sides[OURS if side == SHARED else side]
        try:
            with JavaTasks(worker.pid) as java, Rest(worker.url) as rest:

                def look(records: int) -> Observation:
                    """Until so many are visible."""
                    return observe(
                        self._stand.bootstrap,
                        topic,
                        records,
                        worker.pid,
                        lambda: rest.trouble(name),
                        SECONDS,
                        more=partial(running_jvms, Path(tempfile.gettempdir())) if side == SHARED else tuple,
                    )

                config = self._prepare(job, name, topic, warm)
                rest.create(name, config | (SHARE if side == SHARED else {}))
                try:
                    if job.name in STREAMS:
                        return self._see_stream(job, look, rest, name, warm)
                    return self._see(job, look, warm)
                finally:
                    rest.delete(name)
        finally:
            self.loads.setdefault(job.name, []).append(os.getloadavg()[0])
            if side == OURS:
                self.java_mib[job.name] = max(self.java_mib.get(job.name, 0.0), java.rss / MIB)
            delete_topics(self._stand.connection, [topic], Deadline.after(30))
            if job.name not in FILES:
                self._drop(name, f"t{self._number}")

    def _see(self, job: Job, look: Callable[[int], Observation], warm: bool) -> Runs:
        """One file or table holds all parts, so they pass without a pause."""
        interval = job.name == "file"
        if not warm:
            return {NEW: numbers(look(job.count), job.count, interval=interval)}
        total = job.total
        observation = look(total)
        until = observation.samples[-1].visible * job.count / total
        since = int(observation.samples[-1].visible * (job.count + job.between) / total)
        return {
            NEW: numbers(observation, total, interval=False, until=until),
            WARM: numbers(observation, total, interval=interval, since=since),
        }

    def _see_stream(self, job: Job, look: Callable[[int], Observation], rest: Rest, name: str, warm: bool) -> Runs:
        """Each part is inserted when the one before has passed."""
        if not wait_until(lambda: rest.running(name) == 1 and self._streams(name), SECONDS):
            raise BenchmarkError(f"{name} did not begin to stream: {rest.trouble(name)}")
        self._insert(job.count)
        parts = {NEW: numbers(look(job.count), job.count, interval=False)}
        if warm:
            self._insert(job.between)
            before = look(job.count + job.between).samples[-1].visible
            self._insert(job.count)
            parts[WARM] = numbers(look(job.total), job.total, interval=False, since=before)
        return parts

    def _prepare(self, job: Job, name: str, topic: str, warm: bool) -> Config:
        """The configuration; what it reads is there, but for the rows of a stream."""
        count = job.total if warm else job.count
        if job.name in FILES:
            path = self._root / f"{count}.txt"
            if not path.exists():
                lines.write(path, count)
            return file_config("interval" if job.name == "file" else "poll", path, topic)
        table = f"t{self._number}"
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            database.execute(
                f"create table {table}(id serial primary key, customer text, amount float8, paid bool, note text)"
            )
        if job.name not in STREAMS:
            self._insert(count)
        return debezium_config(self._postgres, name, f"public.{table}", "no_data" if job.name in STREAMS else "initial")

    def _insert(self, rows: int) -> None:
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            database.execute(
                f"insert into t{self._number}(customer, amount, paid, note) select 'customer ' || g, g * 1.5, "
                f"g % 2 = 0, 'a note of some length for row ' || g from generate_series(1, {rows}) g"
            )

    def _streams(self, slot: str) -> bool:
        with psycopg.connect(self._postgres.url) as database:
            row = database.execute("select active from pg_replication_slots where slot_name = %s", (slot,)).fetchone()
        return row == (True,)

    def _drop(self, slot: str, table: str) -> None:
        with psycopg.connect(self._postgres.url, autocommit=True) as database:
            wait_until(lambda: not self._streams(slot), 30)
            database.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s", (slot,)
            )
            database.execute(f"drop table {table}")
            database.execute(f"drop publication if exists {slot}")


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("java", __doc__, PAGE, nice=True)
    parser.add_argument("--job", nargs="+", choices=[job.name for job in JOBS], help="only these (default: all)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measured rounds (default: 3)")
    args = parser.parse_args(argv)
    machine = describe() | {"measured rounds": str(args.rounds), "load before the runs": load()}
    jobs = [job for job in JOBS if args.job is None or job.name in args.job]
    with new_folder("java") as root, ExitStack() as stack:
        stack.callback(remove_data, root)
        plugins = plugin_path(root)
        with new_postgres(LOGICAL) as postgres:
            starts = [measure(file_stream(root), plugins), measure(debezium(debezium_config, postgres), plugins)]
            many = [f"many{number}" for number in range(MANY)]
            memories = [
                measure_many([file_stream(root, name) for name in many]),
                measure_many([debezium(debezium_config, postgres, name) for name in many]),
            ]
            print("\n".join(map(str, (*starts, *memories))), flush=True)
            settings = {"CONNECT_PLUGIN_PATH": str(plugins)}
            with Stand(root, (DEBEZIUM,), args.nice, settings=settings) as stand:
                java = JavaRuns(stand, root, postgres)
                runs = {job: java.measured(job, args.rounds) for job in jobs}
                firsts = {job: java.measured_first(job, args.rounds) for job in jobs}
    machine |= {f"load in `{name}`": f"{min(each):.0f} to {max(each):.0f}" for name, each in java.loads.items()}
    results = {FIRST: _medians(firsts, FIRST)} | {kind: _medians(runs, kind) for kind in (NEW, WARM)}
    print(f"\n{tables(results)}\n\n{targets(results, starts, java.java_mib)}\n{time.strftime('%H:%M')}")
    record = {
        job.name: {
            side: [
                {kind: asdict(one) for kind, one in each.items()} for each in [*firsts[job].get(side, ()), *each_run]
            ]
            for side, each_run in sides.items()
        }
        for job, sides in runs.items()
    }
    (root / "results.json").write_text(json.dumps(record, indent=2))
    if args.write:
        write_page(PAGE, page(results, starts, memories, java.java_mib, machine))
    return 0


def _medians(runs: Mapping[Job, Mapping[str, Sequence[Runs]]], kind: str) -> Results:
    """Of the jobs that were measured in this way."""
    return {
        job: {side: medians([each[kind] for each in each_run]) for side, each_run in sides.items()}
        for job, sides in runs.items()
        if all(kind in each for each_run in sides.values() for each in each_run)
    }
