"""`python -m benchmarks thousand`: a thousand small connectors on one machine, with `task.isolation=shared`.

Each has one task that follows a file. They are created by requests for a hundred each; then nothing happens, and pages
are read and connectors stopped.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import httpx

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.many import await_running
from benchmarks.processes import MIB, Tree
from benchmarks.rest import SECONDS, BenchmarkError, Rest
from benchmarks.stand import OURS, Stand
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics

PAGE = Path(__file__).resolve().parent / "results" / "thousand.md"
COUNT = 1000
TOPIC = "thousand"
IDLE_CORES, STOP_SECONDS = 0.5, 1.0
_EACH = 100
_READY_S = 15.0
_SETTLE_S = 30.0
_IDLE_S = 30.0
_TIMES = 20
_READS = {
    "`GET /connectors`": "/connectors",
    "`GET /connectors?expand=status&expand=info`": "/connectors?expand=status&expand=info",
    "`GET /connectors/…/status`": "/connectors/small-7/status",
    "page of all connectors": "/ui/connectors",
    "page of one connector": "/ui/connectors/small-7",
}


@dataclass(frozen=True, slots=True)
class Thousand:
    """created_s, running_s: from the first request until the last was answered, and until all tasks were RUNNING.
    cpu_s: of the worker's process tree until then. each_mib: of its PSS for each connector. idle_cores: its CPU usage
    while nothing happens. answers: of each kind of request, in seconds.
    """

    created_s: float
    running_s: float
    cpu_s: float
    each_mib: float
    idle_cores: float
    answers: Mapping[str, Sequence[float]]


def config(file: Path) -> dict[str, str]:
    """Return the configuration of each."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "topic": TOPIC,
        "file": str(file),
        "exactly.once.support": "required",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }


def measure(stand: Stand, file: Path, count: int) -> Thousand:
    """Create them, wait, and ask."""
    side = stand.sides[OURS]
    tree = Tree(side.pid)
    time.sleep(_READY_S)
    cpu = tree.cpu_seconds()
    before = tree.memory().pss
    began = time.monotonic()
    with Rest(side.url) as rest:
        for first in range(0, count, _EACH):
            numbers = range(first, min(count, first + _EACH))
            rest.create_all({f"small-{number}": config(file) for number in numbers})
        created = time.monotonic() - began
        await_running(rest, count, began)
    running, used = time.monotonic() - began, tree.cpu_seconds() - cpu
    time.sleep(_SETTLE_S)
    idle_from, idle_at = tree.cpu_seconds(), time.monotonic()
    time.sleep(_IDLE_S)
    idle = (tree.cpu_seconds() - idle_from) / (time.monotonic() - idle_at)
    each = (tree.memory().pss - before) / MIB / count
    with httpx.Client(base_url=side.url, timeout=SECONDS) as client:
        answers = {title: _repeat(partial(_get, client, path)) for title, path in _READS.items()}
        for act in ("pause", "resume", "stop"):
            answers[act] = _repeat(partial(_change, client, act))
    return Thousand(created, running, used, each, idle, answers)


def _get(client: httpx.Client, path: str, _number: int) -> httpx.Response:
    return client.get(path)


def _change(client: httpx.Client, act: str, number: int) -> httpx.Response:
    return client.put(f"/connectors/small-{number}/{act}")


def _repeat(ask: Callable[[int], httpx.Response]) -> list[float]:
    seconds = []
    for number in range(_TIMES):
        began = time.monotonic()
        answer = ask(number)
        seconds.append(time.monotonic() - began)
        if answer.is_error:
            raise BenchmarkError(f"{answer.request.url}: {answer.status_code} {answer.text[:300]}")
    return seconds


def table(one: Thousand) -> str:
    """Return what was measured, and the targets."""
    slowest = max(one.answers["stop"])
    rows = [
        "| all created | all RUNNING | CPU until then | memory each | CPU while nothing happens |",
        "|--:|--:|--:|--:|--:|",
        f"| {one.created_s:.1f} s | {one.running_s:.1f} s | {one.cpu_s:.1f} s | {one.each_mib:.2f} MiB "
        f"| {one.idle_cores:.2f} cores |",
        "",
        "| request | median | slowest |",
        "|---|--:|--:|",
        *(
            f"| {title} | {median(seconds) * 1000:.0f} ms | {max(seconds) * 1000:.0f} ms |"
            for title, seconds in one.answers.items()
        ),
        "",
        "| target | measured | reached |",
        "|---|--:|---|",
        f"| less than {IDLE_CORES:g} cores while nothing happens | {one.idle_cores:.2f} cores "
        f"| {'yes' if one.idle_cores < IDLE_CORES else 'no'} |",
        f"| a stop is answered in less than {STOP_SECONDS:g} s | {slowest * 1000:.0f} ms "
        f"| {'yes' if slowest < STOP_SECONDS else 'no'} |",
    ]
    return "\n".join(rows)


def page(text: str, machine: Mapping[str, str], count: int) -> str:
    """Return the text of benchmarks/results/thousand.md."""
    return f"""\
# A thousand small connectors

`make bench ARGS="thousand --write"` writes this page. {count:,} FileStreamSource connectors with one task each,
exactly once, are created on one worker (`ringfence up` with `task.isolation=shared`) by requests for {_EACH} each
(`POST /api/v1/import`). Their file has one line. CPU and memory are those of the worker's whole process tree: the
worker, Spark's JVM and the tasks' processes. Each kind of request is sent {_TIMES} times, one after another.

{text}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("thousand", __doc__, PAGE)
    parser.add_argument("--count", type=int, default=COUNT, metavar="N", help=f"connectors (default: {COUNT})")
    args = parser.parse_args(argv)
    machine = describe() | {"load before the run": load()}
    with new_folder("thousand") as root:
        file = root / "line.txt"
        file.write_text("a line\n")
        settings = {"CONNECT_TASK_ISOLATION": "shared"}
        with Stand(root / "stand", who=(OURS,), slots=args.count + 20, settings=settings) as stand:
            create_topics(stand.connection, [TopicSpec(TOPIC)], Deadline.after(30))
            text = table(measure(stand, file, args.count))
    print(text)
    if args.write:
        write_page(PAGE, page(text, machine, args.count))
    return 0
