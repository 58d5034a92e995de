"""`python -m benchmarks lists`: the cost of lists with many connectors, without a cluster.

Rows are created in a temporary SQLite database, in the projection's form. Then requests go through the whole web
application (middleware, permissions, masking of secrets, JSON or template), in this process and without a socket.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.command import new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.rest import BenchmarkError

PAGE = Path(__file__).resolve().parent / "results" / "lists.md"
SETTINGS = 20
"""The number of settings of each connector, in addition to its name and class; two of them are secret."""


@dataclass(frozen=True, slots=True)
class List:
    """A request, with its limit at 1,000 connectors."""

    title: str
    path: str
    target_s: float | None = None


LISTS = (
    List("`GET /connectors?expand=status&expand=info`", "/connectors?expand=status&expand=info", 1.0),
    List("`GET /connectors`", "/connectors"),
    List("the page's list, first 50", "/ui/connectors", 0.150),
    List("the page's list, page 10", "/ui/connectors?page=10", 0.150),
    List("the page's list, a search and a filter", "/ui/connectors?q=7&state=healthy", 0.150),
    List("the page's list, by records/s", "/ui/connectors?sort=-rate", 0.150),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements of a request: wall-clock and processor seconds of each run; queries; size of the response."""

    seconds: tuple[float, ...]
    cpu: tuple[float, ...]
    queries: int
    size: int


def fill(connectors: int, tasks: int) -> None:
    """Create that many connectors with so many tasks each, one in twenty with a failed task."""
    from django.db import transaction

    from ringfence.http.masking import remember
    from ringfence.projection import health
    from ringfence.projection.models import Connector, Task, pack

    now_ms = int(time.time() * 1000)
    class_name = "org.example.BenchmarkSource"
    recent = pack([[now_ms // 1000 - n, 1000 + n] for n in range(90, 0, -1)])
    names = [f"team-{n % 40}-source-{n}" for n in range(connectors)]
    own = {f"setting.number.{n}": f"a value of usual length {n}" for n in range(SETTINGS - 2)}
    own |= {"database.password": "not-to-be-shown", "pin": "0123456789"}
    with transaction.atomic():
        remember(class_name, ["pin"])
        Connector.objects.bulk_create(
            (
                Connector(
                    name=name,
                    known=True,
                    config=pack({"name": name, "connector.class": class_name, "tasks.max": str(tasks), **own}),
                    config_offset=number,
                    class_name=class_name,
                    generation=number,
                    task_count=tasks,
                    state="RUNNING",
                    worker="w1",
                    version="1.0.0",
                    state_generation=number,
                    records_total=number * 1000 * tasks,
                    since_ms=now_ms - number * 1000,
                )
                for number, name in enumerate(names)
            ),
            batch_size=500,
        )
        Task.objects.bulk_create(
            (
                Task(
                    connector=name,
                    number=task,
                    known=True,
                    config=pack({"task.class": "org.example.BenchmarkTask", **own}),
                    state="FAILED" if at % 20 == 0 and task == 0 else "RUNNING",
                    trace="ConnectionError: no route with 0123456789\n" * 20 if at % 20 == 0 and task == 0 else "",
                    worker="w1",
                    version="1.0.0",
                    generation=at,
                    reported_ms=now_ms + 3_600_000,  # so that none of them ages during the measurement
                    records=at * 1000,
                    rate=float(at % 500),
                    last_commit_ms=now_ms,
                    recent=recent,
                )
                for at, name in enumerate(names)
                for task in range(tasks)
            ),
            batch_size=500,
        )
        for start in range(0, connectors, 200):
            health.refresh(set(names[start : start + 200]))


def measure(path: str, rounds: int) -> Measurement:
    """Send the request `rounds` times after one warm-up. Raises BenchmarkError for a status other than 200."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client(headers={"host": "localhost"})

    def ask() -> bytes:
        response = client.get(path)
        if response.status_code != 200:
            raise BenchmarkError(f"{path} answered {response.status_code}: {response.content[:200]!r}")
        return bytes(response.content)

    with CaptureQueriesContext(connection) as captured:  # also the warm-up
        body = ask()
    queries = len(captured)  # now: the next request clears the log of queries
    runs = [_seconds(ask) for _ in range(rounds)]
    return Measurement(tuple(clock for clock, _ in runs), tuple(cpu for _, cpu in runs), queries, len(body))


def _seconds(ask: Callable[[], bytes]) -> tuple[float, float]:
    """Return wall-clock and processor seconds. Nothing waits, so on an idle processor both are the same."""
    clock, cpu = time.perf_counter(), time.process_time()
    ask()
    return time.perf_counter() - clock, time.process_time() - cpu


def table(measurements: Mapping[List, Measurement]) -> str:
    """Return medians, minimum, queries and size of each list."""
    rows = [
        "| list | processor time: median | clock: shortest | median | at most | queries | answer |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for each, one in measurements.items():
        target = "" if each.target_s is None else f"{each.target_s * 1000:.0f} ms"
        rows.append(
            f"| {each.title} | {median(one.cpu) * 1000:.0f} ms | {min(one.seconds) * 1000:.0f} ms "
            f"| {median(one.seconds) * 1000:.0f} ms | {target} "
            f"| {one.queries} | {one.size / 1024:,.0f} KiB |"
        )
    return "\n".join(rows)


def page(tables: str, machine: Mapping[str, str], connectors: int, tasks: int, rounds: int) -> str:
    """Return the text of benchmarks/results/lists.md."""
    return f"""\
# What lists cost

`make bench ARGS="lists --write"` writes this page. The database is SQLite and holds {connectors:,}
connectors with {tasks} tasks each. Each configuration has {SETTINGS} settings of its own, and one connector in twenty
has a failed task with its trace. Each request goes through the whole web application in one process (middleware,
permissions, masking of secrets, JSON or template), without a socket, {rounds} times after one warm-up. A request waits
for nothing but the processor. On an otherwise idle processor it would take its processor time, so the limit applies to
the processor time. This machine did much other work at the same time (see its load below), which shows in the times by
the clock.

{tables}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`; also 1 if a list exceeds its limit of processor time."""
    parser = new_parser("lists", __doc__, PAGE)
    parser.add_argument("--connectors", type=int, default=1000, metavar="N", help="(default: 1000)")
    parser.add_argument("--tasks", type=int, default=3, metavar="N", help="of each connector (default: 3)")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="requests of each kind (default: 20)")
    args = parser.parse_args(argv)
    before = load()
    with tempfile.TemporaryDirectory(prefix="ringfence-lists-") as scratch:
        set_up_django(Path(scratch) / "lists.sqlite3")
        fill(args.connectors, args.tasks)
        costs = {each: measure(each.path, args.rounds) for each in LISTS}
    print(table(costs))
    if args.write:
        machine = {**describe(), "load before the runs": before}
        write_page(PAGE, page(table(costs), machine, args.connectors, args.tasks, args.rounds))
    late = [each.title for each, one in costs.items() if each.target_s and median(one.cpu) > each.target_s]
    if late:
        print(f"benchmarks: longer than they may: {json.dumps(late)}", file=sys.stderr)
    return 1 if late else 0


def set_up_django(database: Path) -> None:
    """Set up Django with an empty, migrated database: nothing that the environment names is touched."""
    settings = {
        "RINGFENCE_DATABASE_URL": f"sqlite:///{database}",
        "RINGFENCE_SECRET_KEY": "only for measuring",
        "RINGFENCE_HTTP": "127.0.0.1:8083",
        "RINGFENCE_DEBUG": "0",
        "DJANGO_SETTINGS_MODULE": "ringfence.settings",
    }
    with patch.dict(os.environ, settings):
        import django

        django.setup()
    from django.conf import settings as django_settings
    from django.core.management import call_command

    from ringfence.environment import NoLogin

    django_settings.NO_LOGIN = NoLogin.MACHINE  # as under `ringfence up --no-login`
    call_command("migrate", verbosity=0)
