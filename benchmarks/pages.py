"""`python -m benchmarks pages`: what open pages cost one web process, and how soon a page begins to arrive.

A throw-away database and Valkey, one `ringfence web`, and pages without browsers (`browsers`): each holds its stream
of events open and fetches what it is told of, as `live.js` does. Once a second one connector that all of them show
changes, in the database and in a notice, as the projector does it.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles

from benchmarks import lists
from benchmarks.browsers import Connection, OpenPage
from benchmarks.machine import describe, foot, load
from benchmarks.processes import Tree
from benchmarks.rest import BenchmarkError
from ringfence.local.errors import LocalError
from ringfence.local.process import Leashed, accepts, free_port, wait_until
from ringfence.local.valkey import EmbeddedValkey

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks-pages.md"
CORES, FIRST_BYTE_S = 1.0, 0.150
PATHS = ("/ui/", "/ui/connectors", "/ui/connectors?page=10", "/ui/connectors?sort=-rate")


@dataclass(frozen=True, slots=True)
class Held:
    """`cores`: processor seconds of the web process for each second; `seconds`: from a
    change until each page had it; `size`: KiB of a part."""

    title: str
    cores: float
    seconds: Sequence[float]
    fetches: int
    size: float


def fill(connectors: int, tasks: int) -> list[str]:
    """Connectors and tasks; returns the names of the first page of the list, which have an hour of minutes, too."""
    from django.db import transaction

    from ringfence.access.principal import EVERYBODY_HERE
    from ringfence.mirror.minutes import EVERYTHING, ITSELF, minute_of
    from ringfence.mirror.models import ClusterInfo, Minute, Worker
    from ringfence.web.listing import PAGE_SIZE, chosen

    lists.fill(connectors, tasks)
    now_ms = int(time.time() * 1000)
    minutes = range(minute_of(now_ms) - 60, minute_of(now_ms) + 1)
    shown = [row.name for row in chosen({}, EVERYBODY_HERE, now_ms).shown[:PAGE_SIZE]]
    with transaction.atomic():
        Worker.objects.create(worker="w1", incarnation="i", mode="enabled", slots=8, version="1", since_ms=now_ms)
        ClusterInfo.objects.create(id=1, leader="w1", since_ms=now_ms)
        rows = [
            Minute(connector=name, task=task, minute=minute, state="RUNNING", began="RUNNING", records=60_000)
            for name in shown
            for task in range(tasks)
            for minute in minutes
        ]
        rows += [Minute(connector=EVERYTHING, task=ITSELF, minute=minute, records=10**8) for minute in minutes]
        Minute.objects.bulk_create(rows, batch_size=1000)
    return shown


class Changes:
    """Something new about one connector after the other, as the projector writes and tells it."""

    def __init__(self, names: Sequence[str], redis_url: str) -> None:
        from ringfence.mirror.notices import RedisNotices

        self._names = cycle(names)
        self._tell = RedisNotices(redis_url)
        self._count = 0

    def numbers(self) -> None:
        """A progress report."""
        from ringfence.mirror.models import Task
        from ringfence.mirror.notices import Notice

        name, self._count = next(self._names), self._count + 1
        Task.objects.filter(connector=name, number=0).update(records_total=self._count)
        self._tell(Notice(moved=(name,)))

    def state(self) -> None:
        """Another state, which may change the order of the list."""
        from ringfence.mirror.models import Connector
        from ringfence.mirror.notices import Notice

        name, self._count = next(self._names), self._count + 1
        Connector.objects.filter(name=name).update(since_ms=int(time.time() * 1000))
        self._tell(Notice(changed=(name,)))

    def nothing(self) -> None:
        """So that the streams alone are measured."""


async def _quiet(web: Tree, pages: Sequence[OpenPage], seconds: float = 2.0) -> None:
    """Return when for so long no page has fetched anything and the web process has done next to nothing.

    Raises TimeoutError after two minutes.
    """
    async with asyncio.timeout(120):
        before, cpu = -1, 0.0
        while True:
            now, used = sum(len(page.arrived) for page in pages), web.cpu_seconds()
            if now == before and used - cpu < 0.05:
                return
            before, cpu = now, used
            await asyncio.sleep(seconds)


async def hold(title: str, web: Tree, pages: Sequence[OpenPage], change: Callable[[], None], seconds: int) -> Held:
    """Change something once a second for so many seconds, and wait until all pages have it."""
    running = [asyncio.create_task(page.run()) for page in pages]
    try:
        async with asyncio.timeout(60):
            for page in pages:
                await page.ready.wait()
        await _quiet(web, pages)  # each fetches its part at the beginning
        for page in pages:
            page.arrived.clear()
            page.fetched = 0
        before, began, told = web.cpu_seconds(), time.monotonic(), list[float]()
        for number in range(seconds):
            await asyncio.sleep(max(0.0, began + number - time.monotonic()))
            told.append(time.time())
            await asyncio.to_thread(change)
        await _quiet(web, pages)
        cpu, took = web.cpu_seconds() - before, time.monotonic() - began
    finally:
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
    if broken := next((each for each in ended if isinstance(each, Exception)), None):
        raise BenchmarkError(f"A page broke off: {type(broken).__name__}: {broken}")
    if sum(page.failed for page in pages):
        raise BenchmarkError("Some parts were answered with an error: see the log of the web process")
    fetches = sum(len(page.arrived) for page in pages)
    cores = cpu / took
    size = sum(page.fetched for page in pages) / fetches / 1024 if fetches else 0.0
    return Held(title, cores, [at for page in pages for at in _delays(told, page)], fetches, size)


def _delays(told: Sequence[float], page: OpenPage) -> list[float]:
    """Of each change: until the first answer after it."""
    last = max(page.arrived, default=0.0)
    return [next(arrived for arrived in page.arrived if arrived >= at) - at for at in told if at <= last]


async def first_bytes(port: int, path: str, rounds: int, web: Tree) -> tuple[float, list[float]]:
    """Processor time of one request (mean), and the seconds until the first byte of each; after one warm-up."""
    connection = Connection(port)
    await connection.get(path)
    before, found = web.cpu_seconds(), []
    for _ in range(rounds):
        answer = await connection.get(path)
        if answer.status != 200:
            raise BenchmarkError(f"{path} answered {answer.status}")
        found.append(answer.first_s)
    connection.close()
    return (web.cpu_seconds() - before) / rounds, found


def held_table(found: Sequence[Held]) -> str:
    rows = ["| | cores of the web process | parts fetched | of | median | 95 % |", "|---|--:|--:|--:|--:|--:|"]
    for one in found:
        times = ""
        if one.seconds:
            times = f"{one.size:.1f} KiB | {median(one.seconds):.2f} s | {quantiles(one.seconds, n=20)[-1]:.2f} s"
        rows.append(f"| {one.title} | {one.cores:.2f} | {one.fetches:,} | {times or ' | | '} |")
    return "\n".join(rows)


def first_table(found: Mapping[str, tuple[float, list[float]]]) -> str:
    rows = ["| page | processor time | first byte: shortest | median | at most |", "|---|--:|--:|--:|--:|"]
    for path, (cpu, seconds) in found.items():
        times = f"{min(seconds) * 1000:.0f} ms | {median(seconds) * 1000:.0f} ms | {FIRST_BYTE_S * 1000:.0f} ms"
        rows.append(f"| `{path}` | {cpu * 1000:.0f} ms | {times} |")
    return "\n".join(rows)


def page(held: str, first: str, machine: Mapping[str, str], args: argparse.Namespace) -> str:
    """docs/benchmarks-pages.md."""
    return f"""\
# What open pages cost

`make bench ARGS="pages --write"` writes this page. {args.connectors:,} connectors with {args.tasks} tasks each in
SQLite, and an hour of minutes of those on the first page; one `ringfence web`, Valkey, and {args.pages} pages that
have the list open. They are no browsers: each holds a stream of server-sent events and fetches what it is told of, as
the pages' scripts do. All of them show the fifty connectors of which one changes each second, for {args.seconds}
seconds. The limit: under one core, the processor time of the web process by the clock. Numbers are told the less often
the more pages are open (`web/live.py`), so a page may fetch once for several changes; a change of state waits
for nobody.

{held}

The delay is from the change in the database until a page has the new row (or list) complete. Where only numbers of a
connector changed a page fetches that row; where its state did, the whole list, since its place may be another one. A
part is made once for all pages that ask for the same since the same change, and never for other eyes. The pages'
connections and their driver ran on the same machine.

The first byte of a page over a socket, {args.rounds} times after one warm-up:

{first}

With a processor of its own a request takes its processor time. Here the machine did much other work meanwhile (its load
is below), which the times by the clock show.

{foot(machine)}"""


def measure(args: argparse.Namespace, scratch: Path) -> tuple[list[Held], dict[str, tuple[float, list[float]]]]:
    """All of it, with processes of its own that end with it."""
    valkey = EmbeddedValkey(scratch / "valkey", free_port(), scratch / "valkey.log")
    database = scratch / "pages.sqlite3"
    lists._django(database)
    names = fill(args.connectors, args.tasks)
    port = free_port()
    environment = {
        **os.environ,
        "RINGFENCE_DATABASE_URL": f"sqlite:///{database}",
        "RINGFENCE_REDIS_URL": valkey.url,
        "RINGFENCE_SECRET_KEY": "only for measuring",
        "RINGFENCE_DEBUG": "0",
    }
    web: Leashed | None = None
    try:
        valkey.start()
        command = [sys.executable, "-m", "ringfence.cli", "web", "--http", f"127.0.0.1:{port}"]
        web = process = Leashed.start("web", command, log=scratch / "web.log", cwd=scratch, env=environment)
        wait_until(lambda: accepts("127.0.0.1", port) or process.poll() is not None, 60)
        tree = Tree(process.pid)
        changes = Changes(names, valkey.url)

        async def run() -> tuple[list[Held], dict[str, tuple[float, list[float]]]]:
            first = {path: await first_bytes(port, path, args.rounds, tree) for path in PATHS}
            held = []
            for title, change in (
                (f"{args.pages} pages, nothing changes", changes.nothing),
                (f"{args.pages} pages, numbers of one connector a second", changes.numbers),
                (f"{args.pages} pages, the state of one connector a second", changes.state),
            ):
                pages = [OpenPage(port, {}, frozenset(names)) for _ in range(args.pages)]
                held.append(await hold(title, tree, pages, change, args.seconds))
                print(held_table(held[-1:]), flush=True)
            return held, first

        return asyncio.run(run())
    finally:
        if web is not None:
            web.stop(5)
        valkey.stop()


def main(argv: Sequence[str]) -> int:
    """Exit codes as of `python -m benchmarks`; more than a core, or a first byte that costs too much, is 1, too."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks pages", description=__doc__)
    parser.add_argument("--pages", type=int, default=200, metavar="N", help="open at once (default: 200)")
    parser.add_argument("--connectors", type=int, default=1000, metavar="N", help="(default: 1000)")
    parser.add_argument("--tasks", type=int, default=3, metavar="N", help="of each connector (default: 3)")
    parser.add_argument("--seconds", type=int, default=20, metavar="N", help="of each measurement (default: 20)")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="requests for each page (default: 20)")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args(argv)
    before = load()
    with tempfile.TemporaryDirectory(prefix="ringfence-pages-") as scratch:
        try:
            held, first = measure(args, Path(scratch))
        except (BenchmarkError, LocalError, TimeoutError, OSError) as error:
            print(f"benchmarks: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    print(f"{held_table(held)}\n\n{first_table(first)}")
    if args.write:
        machine = {**describe(), "load before and after the runs": f"{before}; {load()}"}
        PAGE.write_text(page(held_table(held), first_table(first), machine, args))
        print(f"written: {PAGE}")
    much = [one.title for one in held if one.cores >= CORES]
    late = [path for path, (cpu, _) in first.items() if cpu > FIRST_BYTE_S]
    if much or late:
        print(f"benchmarks: more than they may: {'; '.join([*much, *late])}", file=sys.stderr)
    return 1 if much or late else 0
