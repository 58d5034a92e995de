"""`python -m benchmarks gaps`: for how long no record becomes visible when a connector's configuration changes.

Kafka Connect's own VerifiableSource and ours run in turn, with the same configuration on one broker. The gap is what a
consumer notices: the longest pause between two records at a read_committed consumer, around the change.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.connect import VERIFIABLE
from benchmarks.machine import describe, foot
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.sides import Side
from benchmarks.stand import CONNECT, OURS, Stand
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.guarded_process import wait_until

PAGE = Path(__file__).resolve().parent / "results" / "gaps.md"
RECORDS_S = 200
_CALM_SECONDS = 3.0
_RUNNING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the number of tasks, of another setting, or a restart of the connector with its tasks."""

    title: str
    before: int
    after: int
    restart: bool = False


CHANGES = (
    Change("another setting, 1 task", 1, 1),
    Change("restart, 1 task", 1, 1, restart=True),
    Change("1 task to 3", 1, 3),
    Change("3 tasks to 1", 3, 1),
)


class Arrivals:
    """Records when a consumer receives records, on a separate thread."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.times: list[float] = []
        self._log = TopicLog(connection, topic)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._log.poll(0.02):
                self.times.append(time.monotonic())

    def longest(self, since: float, until: float) -> float:
        """Return the longest pause, in seconds, between `since` and `until`."""
        times = [since, *(moment for moment in self.times if since < moment < until), until]
        return max(later - earlier for earlier, later in pairwise(times))

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self._log.close()


def config(topic: str, tasks: int, throughput: int) -> dict[str, str]:
    """Return the configuration, the same for both sides."""
    return {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "tasks.max": str(tasks),
        "topic": topic,
        "throughput": str(throughput),
        "exactly.once.support": "requested",
        "transaction.boundary": "poll",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }


def measure(side: Side, connection: Connection, name: str, rounds: int) -> dict[Change, list[float]]:
    """Return the gaps in seconds for each change, `rounds` times."""
    create_topics(connection, [TopicSpec(name)], Deadline.after(30))
    gaps: dict[Change, list[float]] = {change: [] for change in CHANGES}
    arrivals = Arrivals(connection, name)
    try:
        with Rest(side.url) as rest:
            rest.create(name, config(name, 1, RECORDS_S))
            turn = 0
            try:
                for change in CHANGES * (rounds + 1):  # the first of each is a warm-up
                    turn += 1
                    _await_running(rest, name, change.before)
                    time.sleep(_CALM_SECONDS)
                    began = time.monotonic()
                    if change.restart:
                        rest.restart(name)
                    else:
                        rest.configure(name, config(name, change.after, RECORDS_S + turn % 2))
                    _await_running(rest, name, change.after)
                    time.sleep(_CALM_SECONDS)
                    gaps[change].append(arrivals.longest(began - 0.5, time.monotonic()))
            finally:
                rest.delete(name)
    finally:
        arrivals.close()
    return {change: seconds[1:] for change, seconds in gaps.items()}


def _await_running(rest: Rest, name: str, tasks: int) -> None:
    if not wait_until(lambda: rest.running(name) == tasks, _RUNNING_SECONDS, pause=0.1):
        raise BenchmarkError(f"connector {name} did not have {tasks} RUNNING tasks within {_RUNNING_SECONDS:.0f} s")


def table(results: Mapping[str, Mapping[Change, Sequence[float]]]) -> str:
    """Return medians, maxima, and the ratio."""
    rows = [
        "| change | Kafka Connect: median | longest | Ringfence: median | longest | ratio of the medians |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for change in CHANGES:
        theirs, ours = results[CONNECT][change], results[OURS][change]
        rows.append(
            f"| {change.title} | {median(theirs):.2f} s | {max(theirs):.2f} s | {median(ours):.2f} s "
            f"| {max(ours):.2f} s | {median(ours) / median(theirs):.2f} |"
        )
    return "\n".join(rows)


def page(tables: str, machine: Mapping[str, str], rounds: int) -> str:
    """Return the text of benchmarks/results/gaps.md."""
    return f"""\
# The gap of a reconfiguration

`make bench ARGS="gaps --write"` writes this page. A VerifiableSource connector delivers {RECORDS_S}
records per second and task, exactly once, with `transaction.boundary=poll`. Then `PUT /connectors/…/config` changes it,
or `POST /connectors/…/restart?includeTasks=true` restarts it.
The gap is the longest time in which a read_committed consumer of its topic gets no record, from half a second before
the request to {_CALM_SECONDS:g} s after all tasks are RUNNING. The real Kafka Connect 4.3.0 and Ringfence run side by
side on one broker. In each of {rounds} rounds, one is changed after the other.

{tables}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("gaps", __doc__, PAGE)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="changes of each kind (default: 5)")
    args = parser.parse_args(argv)
    with new_folder("gaps") as root:
        gaps = _both(root, args.rounds)
    print(table(gaps))
    if args.write:
        write_page(PAGE, page(table(gaps), describe(), args.rounds))
    return 0


def _both(root: Path, rounds: int) -> dict[str, dict[Change, list[float]]]:
    gaps: dict[str, dict[Change, list[float]]] = {name: {change: [] for change in CHANGES} for name in (CONNECT, OURS)}
    with Stand(root, (VERIFIABLE,)) as stand:
        for number in range(rounds):
            for name, side in stand.sides.items():
                topic = f"gaps-{number}-{name.lower().replace(' ', '-')}"
                for change, seconds in measure(side, stand.connection, topic, 1).items():
                    gaps[name][change] += seconds
                    text = ", ".join(f"{one:.2f} s" for one in seconds)
                    print(f"{number + 1}/{rounds} {name:13} {change.title}: {text}", flush=True)
    return gaps
