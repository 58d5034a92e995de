"""`python -m benchmarks sql`: how many rows per second SqlSource reads from PostgreSQL, with one task, in each mode."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import Numbers, medians, numbers
from benchmarks.rest import Rest
from benchmarks.stand import OURS, Stand
from benchmarks.watch import observe
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from tests.support.postgres import Postgres, new_postgres

PAGE: Final = Path(__file__).resolve().parent / "results" / "sql.md"
ROWS: Final = 1_000_000
LEAST: Final = 60_000
MODES: Final[Mapping[str, Mapping[str, str]]] = {
    "xmin": {},
    "timestamp+incrementing": {"timestamp.column.name": "changed", "incrementing.column.name": "id"},
    "incrementing": {"incrementing.column.name": "id"},
}
_FILL: Final = (
    "CREATE TABLE t (id bigint PRIMARY KEY, name text NOT NULL, price float8 NOT NULL, open boolean NOT NULL, "
    "note text, changed timestamptz NOT NULL);"
    "INSERT INTO t SELECT g, 'customer ' || g % 5000, g / 100.0, g % 2 = 0, repeat('abcdefghij', 3), "
    f"now() - interval '1 day' + g * interval '1 ms' FROM generate_series(1, {ROWS}) g;"
    "CREATE INDEX ON t (changed, id); ANALYZE t"
)


def measure(stand: Stand, postgres: Postgres, mode: str, number: int) -> Numbers:
    """One run."""
    name = f"sql-{mode.replace('+', '-')}-{number}"
    topic = f"{name}-t"
    create_topics(stand.connection, [TopicSpec(topic)], Deadline.after(30))
    side = stand.sides[OURS]
    try:
        with Rest(side.url) as rest:
            rest.create(name, _config(postgres, mode, name))
            try:
                observation = observe(stand.bootstrap, topic, ROWS, side.pid, lambda: rest.trouble(name), 300.0, 1)
            finally:
                rest.delete(name)
    finally:
        delete_topics(stand.connection, [topic], Deadline.after(30))
    return numbers(observation, ROWS, interval=True)


def _config(postgres: Postgres, mode: str, name: str) -> dict[str, str]:
    return {
        "connector.class": "SqlSource",
        "tasks.max": "1",
        "connection.url": f"postgresql://127.0.0.1:{postgres.port}/ringfence",
        "connection.user": "ringfence",
        "mode": mode,
        "table.whitelist": "t",
        "topic.prefix": f"{name}-",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "exactly.once.support": "required",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "1000",
        **MODES[mode],
    }


def table(results: Mapping[str, Numbers]) -> str:
    rows = ["| mode | rows/s | CPU s a million | task RSS |", "|---|--:|--:|--:|"]
    rows += [
        f"| `{mode}` | {one.records_s:,.0f} | {one.cpu_s_per_million:.2f} | {one.task_rss_mib:.0f} MiB |"
        for mode, one in results.items()
    ]
    return "\n".join(rows)


def targets(results: Mapping[str, Numbers]) -> str:
    rows = ["| target | measured | reached |", "|---|--:|---|"]
    rows += [
        f"| `{mode}`: at least {LEAST:,} rows/s a task | {one.records_s:,.0f} "
        f"| {'yes' if one.records_s >= LEAST else 'no'} |"
        for mode, one in results.items()
    ]
    return "\n".join(rows)


def page(results: Mapping[str, Numbers], machine: Mapping[str, str], rounds: int) -> str:
    """Return the text of benchmarks/results/sql.md."""
    return f"""\
# SQL tables

`make bench ARGS="sql --write"` writes this page. One task reads a table of {ROWS:,} rows with 6 columns from
PostgreSQL, to JSON without schemas. Transactions end every 1000 ms. Everything runs on one machine: database, broker,
worker, task. Each row is the median of {rounds} rounds after one that is not measured.

{table(results)}

{targets(results)}

{foot(machine)}
"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("sql", __doc__, PAGE)
    parser.add_argument("--runs", type=int, default=3, help="measured rounds (3)")
    args = parser.parse_args(argv)
    machine = describe() | {"load before the runs": load()}
    results: dict[str, Numbers] = {}
    with new_folder("sql") as root, Stand(root, who=(OURS,)) as stand, new_postgres() as postgres:
        with psycopg.connect(postgres.url, autocommit=True) as database:
            database.execute(_FILL.encode())
        for mode in MODES:
            runs = []
            for number in range(args.runs + 1):
                runs.append(measure(stand, postgres, mode, number))
                print(f"{mode} {number}/{args.runs} {runs[-1].records_s:>9,.0f} rows/s", flush=True)
            results[mode] = medians(runs[1:])
    shutil.rmtree(root)
    print(table(results), targets(results), sep="\n\n")
    if args.write:
        write_page(PAGE, page(results, machine, args.runs))
    return 0
