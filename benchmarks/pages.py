"""`python -m benchmarks pages`: what open pages cost one web process, and how soon a page begins to arrive.

It uses a temporary database and Valkey, one `ringfence web`, and pages without browsers (`browsers`): each keeps its
event stream open and fetches what it is notified of, like `live.js`. Once a second something changes, in the database
and in a notification, as from the projector: for pages that all show the same list, and for pages of one connector
each.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks import lists
from benchmarks.browsers import Connection, OpenPage
from benchmarks.changes import Changes, fill
from benchmarks.command import new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.processes import Tree
from benchmarks.rest import BenchmarkError
from ringfence.environment import NoLogin
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess, wait_until
from ringfence.local.ports import accepts, free_port
from ringfence.local.valkey import EmbeddedValkey

PAGE = Path(__file__).resolve().parent / "results" / "pages.md"
CORES, FIRST_BYTE_S = 1.0, 0.150
PATHS = ("/ui/", "/ui/connectors", "/ui/connectors?page=10", "/ui/connectors?sort=-rate")


@dataclass(frozen=True, slots=True)
class Case:
    """connectors: whether each page shows its own connector; otherwise all show the same list. change: "" for none."""

    title: str
    change: str = ""
    connectors: bool = False


CASES = (
    Case("one list, nothing changes"),
    Case("one list, numbers of a connector on it change", "numbers"),
    Case("one list, the state of a connector on it changes", "state"),
    Case("a connector each, nothing changes", "", connectors=True),
    Case("a connector each, numbers of all of them change", "every number", connectors=True),
    Case("a connector each, the state of one of them changes", "state", connectors=True),
)


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """cores: processor seconds of the web process per second. seconds: from a change until a page that shows it had it.
    last: until all of them had it. size: KiB of a part.
    """

    title: str
    cores: float
    seconds: Sequence[float]
    last: Sequence[float]
    fetches: int
    size: float


async def _quiet(web: Tree, pages: Sequence[OpenPage], seconds: float = 2.0) -> None:
    """Return when, for that long, no page has fetched anything and the web process was nearly idle.

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


async def hold(case: Case, web: Tree, pages: Sequence[OpenPage], changes: Changes, seconds: int) -> LiveLoad:
    """Change something once a second for so many seconds, and wait until all pages have it."""
    running = [asyncio.create_task(page.run()) for page in pages]
    try:
        async with asyncio.timeout(60):
            for page in pages:
                await page.ready.wait()
        await _quiet(web, pages)  # each fetches its part at the start
        for page in pages:
            page.arrived.clear()
            page.fetched = 0
        before, began = web.cpu_seconds(), time.monotonic()
        changed: list[tuple[float, frozenset[str]]] = []
        for number in range(seconds):
            await asyncio.sleep(max(0.0, began + number - time.monotonic()))
            if case.change:
                changed.append((time.time(), await asyncio.to_thread(changes.make, case.change)))
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        cpu, took = web.cpu_seconds() - before, time.monotonic() - began
        async with asyncio.timeout(120):
            while any(page.delay(at) is None for at, names in changed for page in pages if page.on_page & names):
                await asyncio.sleep(0.5)
    finally:
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
    if broken := next((each for each in ended if isinstance(each, Exception)), None):
        raise BenchmarkError(f"A page failed: {type(broken).__name__}: {broken}")
    if sum(page.failed for page in pages):
        raise BenchmarkError("Some parts had an error response: see the log of the web process")
    delays = [[page.delay(at) for page in pages if page.on_page & names] for at, names in changed]
    if any(delay is None for each in delays for delay in each):
        raise BenchmarkError("A page never fetched a change")
    delays_seen = [[delay for delay in each if delay is not None] for each in delays]
    fetches = sum(len(page.arrived) for page in pages)
    size = sum(page.fetched for page in pages) / fetches / 1024 if fetches else 0.0
    every = [delay for each in delays_seen for delay in each]
    return LiveLoad(case.title, cpu / took, every, [max(each) for each in delays_seen], fetches, size)


async def first_bytes(port: int, path: str, rounds: int, web: Tree) -> tuple[float, list[float]]:
    """Return the mean processor time of a request, and the seconds until the first byte of each; after one warm-up."""
    connection = Connection(port)
    await connection.get(path)
    before, first_s = web.cpu_seconds(), []
    for _ in range(rounds):
        answer = await connection.get(path)
        if answer.status != 200:
            raise BenchmarkError(f"{path} answered {answer.status}")
        first_s.append(answer.first_s)
    connection.close()
    return (web.cpu_seconds() - before) / rounds, first_s


def held_table(loads: Sequence[LiveLoad]) -> str:
    rows = [
        "| all pages show | cores of the web process | parts fetched | of | delay: median | 99 % | the last page |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for one in loads:
        times = " | | | "
        if one.seconds:
            slow = quantiles(one.seconds, n=100)[-1]
            last = median(one.last)
            times = f"{one.size:.1f} KiB | {median(one.seconds):.2f} s | {slow:.2f} s | {last:.2f} s"
        rows.append(f"| {one.title} | {one.cores:.2f} | {one.fetches:,} | {times} |")
    return "\n".join(rows)


def first_table(first_answers: Mapping[str, tuple[float, list[float]]]) -> str:
    rows = ["| page | processor time | first byte: shortest | median | at most |", "|---|--:|--:|--:|--:|"]
    for path, (cpu, seconds) in first_answers.items():
        times = f"{min(seconds) * 1000:.0f} ms | {median(seconds) * 1000:.0f} ms | {FIRST_BYTE_S * 1000:.0f} ms"
        rows.append(f"| `{path}` | {cpu * 1000:.0f} ms | {times} |")
    return "\n".join(rows)


def page(held_text: str, first: str, machine: Mapping[str, str], args: argparse.Namespace) -> str:
    """Return the text of benchmarks/results/pages.md."""
    return f"""\
# What open pages cost

`make bench ARGS="pages --write"` writes this page. {args.connectors:,} connectors with {args.tasks} tasks each are in
SQLite, with an hour of history for those that the pages show. One `ringfence web` and Valkey serve {args.pages} open
pages. These are not browsers: each holds a stream of server-sent events and fetches what it is notified of, as the
pages' scripts do. Something changes once a second, for {args.seconds} seconds. The limit is less than one core,
measured as the web process's processor time divided by the time on the clock.

{held_text}

The delay lasts from the change in the database until a page that shows it has received the complete answer to a request
made after the change. The last column is the median of the time until all such pages have one. On the list, a page
fetches one row if only numbers changed, and the whole list if a state changed, because the row may have moved. A part
of a list is rendered once for all pages that ask for the same part after the same change, and is never shared with
users who may see something else. If each page shows a connector of its own, nothing can be shared.

The page of a connector gets its numbers in the event itself; they are looked up for all open pages at once. Charts and
tables below them follow after 5 to 15 s. The more pages are open and the more processor time each part has cost
recently, the less often parts are fetched because of numbers (`web/live/streams.py`). A change of state is never
delayed. The pages' connections and their driver ran on the same two processors.

The first byte of a page over a socket, {args.rounds} times after one warm-up:

{first}

On an otherwise idle processor, a request takes its processor time, so the limit applies to the processor time.

{foot(machine)}"""


def measure(args: argparse.Namespace, scratch: Path) -> tuple[list[LiveLoad], dict[str, tuple[float, list[float]]]]:
    """Measure everything, with separate processes that end with this one."""
    valkey = EmbeddedValkey(scratch / "valkey", free_port(), scratch / "valkey.log")
    database = scratch / "pages.sqlite3"
    lists.set_up_django(database)
    names = fill(args.connectors, args.tasks, args.pages)
    from ringfence.web.lists.connector_query import PAGE_SIZE

    port = free_port()
    environment = {
        **os.environ,
        "RINGFENCE_DATABASE_URL": f"sqlite:///{database}",
        "RINGFENCE_REDIS_URL": valkey.url,
        "RINGFENCE_SECRET_KEY": "only for measuring",
        "RINGFENCE_DEBUG": "0",
        "RINGFENCE_STREAMS_PER_ACCOUNT": "1000",  # all pages are one account's
        "RINGFENCE_STREAMS_TOTAL": "1000",
    }
    web: GuardedProcess | None = None
    try:
        valkey.start()
        without_login = ["--no-login", NoLogin.MACHINE]
        command = [sys.executable, "-m", "ringfence.cli", "web", "--http", f"127.0.0.1:{port}", *without_login]
        web = process = GuardedProcess.start("web", command, log=scratch / "web.log", cwd=scratch, env=environment)
        wait_until(lambda: accepts("127.0.0.1", port) or process.poll() is not None, 60)
        tree = Tree(process.pid)

        async def run() -> tuple[list[LiveLoad], dict[str, tuple[float, list[float]]]]:
            first = {path: await first_bytes(port, path, args.rounds, tree) for path in PATHS}
            loads = []
            for case in CASES:
                visible, of_list = names[: args.pages], frozenset(names[:PAGE_SIZE])
                pages = [OpenPage(port, frozenset((name,)), name) for name in visible]
                if not case.connectors:
                    pages = [OpenPage(port, of_list) for _ in range(args.pages)]
                changes = Changes(visible if case.connectors else names[:PAGE_SIZE], valkey.url)
                loads.append(await hold(case, tree, pages, changes, args.seconds))
                print(held_table(loads[-1:]), flush=True)
            return loads, first

        return asyncio.run(run())
    finally:
        if web is not None:
            web.stop(5)
        valkey.stop()


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`; also 1 for more than a core, or if a first byte
    costs too much.
    """
    parser = new_parser("pages", __doc__, PAGE)
    parser.add_argument("--pages", type=int, default=200, metavar="N", help="open at once (default: 200)")
    parser.add_argument("--connectors", type=int, default=1000, metavar="N", help="(default: 1000)")
    parser.add_argument("--tasks", type=int, default=3, metavar="N", help="of each connector (default: 3)")
    parser.add_argument("--seconds", type=int, default=20, metavar="N", help="of each measurement (default: 20)")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="requests for each page (default: 20)")
    args = parser.parse_args(argv)
    before = load()
    with tempfile.TemporaryDirectory(prefix="ringfence-pages-") as scratch:
        try:
            loads, first = measure(args, Path(scratch))
        except (BenchmarkError, LocalError, TimeoutError, OSError) as error:
            print(f"benchmarks: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    print(f"{held_table(loads)}\n\n{first_table(first)}")
    if args.write:
        machine = {**describe(), "load before and after the runs": f"{before}; {load()}"}
        write_page(PAGE, page(held_table(loads), first_table(first), machine, args))
    much = [one.title for one in loads if one.cores >= CORES]
    late = [path for path, (cpu, _) in first.items() if cpu > FIRST_BYTE_S]
    if much or late:
        print(f"benchmarks: over the limit: {'; '.join([*much, *late])}", file=sys.stderr)
    return 1 if much or late else 0
