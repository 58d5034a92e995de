"""`python -m benchmarks leader`: the leader's own work, from 10 to 10,000 connectors with a task each, on 100 workers.

Nothing runs: it measures passes of the leader's loop over a simulated cluster, other functions as the loop calls them,
the memory of its states, and what the projection writes into a SQLite database.
"""

import gc
import os
import tempfile
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar
from unittest.mock import patch

from benchmarks.command import new_parser, write_page
from benchmarks.lists import set_up_django
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import yes_or_no
from benchmarks.processes import MIB
from ringfence.encryption import new_key, require_key
from ringfence.engine.leader.commands.command import Plan
from ringfence.engine.leader.reconcile_loop import Reconciler
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.leader.failure_detector import PlaceCounts, take_out
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.leader.reconcile import Steps, decide
from ringfence.fencing.topics import status
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_encryption import EncryptionWatch
from ringfence.fencing.topics.config_log import fold
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TaskCountRecord,
    TaskRecord,
    encode,
)
from ringfence.fencing.topics.status import (
    ConnectorStatus,
    State,
    StatusRecord,
    StatusState,
    SuspicionRecord,
    TaskStatus,
    Trust,
)

PAGE: Final = Path(__file__).resolve().parent / "results" / "leader.md"
COUNTS: Final = (10, 100, 1_000, 10_000)
TARGET_S: Final = 1.0
CONFIG: Final = "the config topic is read"
STATUS: Final = "the status topic is read"
ROWS: Final = "the projection writes all rows"
FULL_PASS: Final = "the first pass of a term, which looks at everything"
RESTING_PASS: Final = "a pass with no change since the last one"
ONE_STATUS: Final = "one status more is read, and the pass after it"
ONE_CONNECTOR: Final = "one connector more is read, and the pass that places it"
ONE_WORKER: Final = "the pass after a worker has left"
ONCE: Final = (CONFIG, STATUS, ROWS)
"""What a process does once, when it starts."""
_WORKERS: Final = 100
_BATCH: Final = 200
"""What the projector writes at once of these topics."""
_ROUNDS: Final = 3
_GROUP: Final = "bench"
_LEADER: Final = WorkerId("worker-000")
Entry = TypeVar("Entry")


def _members(count: int) -> list[LiveWorker]:
    slots = 2 * count // _WORKERS + 2
    names = [f"worker-{number:03}" for number in range(_WORKERS)]
    return [LiveWorker(WorkerId(name), Incarnation(f"i-{name}"), slots) for name in names]


def _log(records: Sequence[tuple[bytes, bytes | None]], first: int) -> list[LogRecord]:
    return [LogRecord(0, first + number, key, value, 0) for number, (key, value) in enumerate(records)]


def _config_of(name: ConnectorName, first: int) -> list[ConfigRecord]:
    """Return the records of a connector with one task, whose first one gets the offset `first`."""
    settings = {"name": name, "connector.class": "VerifiableSource", "topic": name, "throughput": "1"}
    return [
        ConnectorRecord(name, settings),
        TaskRecord(TaskId(name, 0), {"task.id": "0"}),
        CommitRecord(name, 1),
        TaskCountRecord(name, 1, Generation(first + 2)),
    ]


@dataclass(frozen=True, slots=True)
class Topics:
    """The two topics of a cluster whose connectors all run: as they are read, and as they are folded."""

    config: Sequence[LogRecord]
    placements: Sequence[LogRecord]
    statuses: Sequence[tuple[bytes, bytes | None]]
    state: ClusterState
    status: StatusState
    members: Sequence[LiveWorker]


def simulate(count: int) -> Topics:
    """Return the topics of a cluster with so many connectors."""
    config: list[LogRecord] = []
    for number in range(count):
        records = _config_of(ConnectorName(f"connector-{number:05}"), len(config))
        config += _log([encode(record) for record in records], len(config))
    members = _members(count)
    unplaced = fold(ClusterState(), config, "config")
    steps = _decide(unplaced, StatusState(), members)
    placements = _log([encode(record) for record in steps.placements], len(config))
    state = fold(unplaced, placements, "config")
    statuses = [status.encode(record) for record in _statuses(steps.placements)]
    return Topics(config, placements, statuses, state, _fold_statuses(StatusState(), statuses), members)


def _statuses(placements: Sequence[PlacementRecord]) -> Iterator[StatusRecord]:
    for placed in placements:
        assert placed.worker is not None
        yield ConnectorStatus(placed.task.connector, State.RUNNING, _LEADER, placed.generation)
        yield TaskStatus(
            placed.task, State.RUNNING, placed.worker, placed.generation, placed.attempt, placed.incarnation
        )


def _fold_statuses(state: StatusState, entries: Sequence[tuple[bytes, bytes | None]]) -> StatusState:
    return status.fold(state, (status.decode(key, value) for key, value in entries))


def _decide(state: ClusterState, statuses: StatusState, members: Sequence[LiveWorker]) -> Steps:
    return decide(state, statuses, members, _GROUP, {}, 0.0)


class _Outside:
    """What a pass has beside the states: no round has finished, each connector has its instance, and nobody reads what
    is reported.
    """

    def nothing(self, *_: object, **__: object) -> Any:
        return ()

    answers = event = forget = running = start = status = take_changes = take_finished = take_version_changes = nothing

    def unknown(self, *_: object) -> None: ...

    trace_of = version_of = unknown

    def true(self, *_: object) -> bool:
        return True

    ask = has = runs = true

    def restarting(self, _: ConnectorName) -> bool:
        return False

    def now_ms(self) -> int:
        return 0


class Passes:
    """A leader's loop, with states that are set. What it writes has no effect."""

    def __init__(self, topics: Topics) -> None:
        self.state, self.statuses, self.members = topics.state, topics.status, list(topics.members)
        self.encryption = EncryptionWatch()
        self.records: Sequence[object] = ()
        """What the last pass wrote."""
        self.begin_term()

    def begin_term(self) -> None:
        loop: Any = Reconciler  # which takes what it needs of these
        outside = _Outside()
        self._loop: Any = loop(self, _GROUP, _LEADER, outside, outside, outside, outside, lambda: self.statuses, {})

    def write(self, plan: Plan, _: object) -> tuple[ClusterState, int]:
        self.records = list(plan(self.state))
        return self.state, -1

    def refresh(self, _: object) -> ClusterState:
        return self.state

    def look(self) -> None:
        """Do a pass."""
        self.records = ()
        self._loop._next_pass_at = float("-inf")  # without the rest that a long one leaves to others
        self._loop.step(self.members)


def works(topics: Topics) -> dict[str, Callable[[], object]]:
    """Return what the leader does, by its name."""
    state, statuses, members = topics.state, topics.status, topics.members
    one = _log([encode(record) for record in _config_of(ConnectorName("another"), state.end)], state.end)
    unplaced = fold(ClusterState(), topics.config, "config")
    first = members[0]
    suspicion = SuspicionRecord(first.worker, first.incarnation, Trust.CALMING, 1)
    task = next(iter(statuses.tasks.values()))
    rounds = [connector.name for connector in state.existing()]
    times = iter(range(1, 1_000_000))
    leader = Passes(topics)
    counts = PlaceCounts()

    def ask_who_works() -> None:
        fresh = replace(statuses)  # what one state finds out for all connectors, another one does not know
        for name in rounds:
            list(fresh.at_work(name))

    def begin() -> None:
        leader.begin_term()
        leader.look()

    def read_status() -> None:
        leader.statuses = status.fold(leader.statuses, [replace(task, since_ms=next(times))])
        leader.look()

    def read_connector() -> None:
        leader.state = fold(state, one, "")
        leader.look()
        assert len(leader.records) == 1

    def forget_connector() -> None:
        leader.state = state
        leader.look()

    def lose_worker() -> None:
        leader.members = list(members[1:])
        leader.look()
        assert len(leader.records) >= len(rounds) // _WORKERS

    def find_worker() -> None:
        leader.members = list(members)
        leader.look()

    return {
        CONFIG: lambda: fold(fold(ClusterState(), topics.config, ""), topics.placements, ""),
        "one connector more is read": lambda: fold(state, one, ""),
        STATUS: lambda: _fold_statuses(StatusState(), topics.statuses),
        "one status more is read": lambda: status.fold(statuses, [replace(task, since_ms=1)]),
        FULL_PASS: begin,
        RESTING_PASS: leader.look,
        ONE_STATUS: read_status,
        ONE_CONNECTOR: read_connector,
        "the pass after it was deleted": forget_connector,
        ONE_WORKER: lose_worker,
        "the pass after it has come back": find_worker,
        "all tasks are placed": lambda: _decide(unplaced, StatusState(), members),
        "a worker is calming": lambda: take_out(members, {first.worker: suspicion}, state, counts),
        "each connector's round asks who is at work": ask_who_works,
    }


def batched(entries: Sequence[Entry], size: int) -> Iterator[Sequence[Entry]]:
    """Return the entries in parts of this size."""
    return (entries[first : first + size] for first in range(0, len(entries), size))


class Projected:
    """The projection of the two topics. Django has been set up."""

    def __init__(self, topics: Topics) -> None:
        from django.core.management import call_command

        from ringfence.projection.projector import Projection

        call_command("flush", interactive=False, verbosity=0)
        self._topics = topics
        self._config = Projection("config", "config-topic", "id-1")
        self._status = Projection("status", "status-topic", "id-1")
        self._config_end, self._status_end = topics.state.end, 0

    def follow(self) -> None:
        """Write all rows, from the beginning of both topics."""
        config = [*self._topics.config, *self._topics.placements]
        for batch in batched(config, _BATCH):
            self._config.apply(batch, {0: batch[-1].offset + 1})
        for entries in batched(self._topics.statuses, _BATCH):
            self.write_statuses(entries)

    def write_statuses(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write the rows of these statuses."""
        records = _log(entries, self._status_end)
        self._status_end += len(records)
        self._status.apply(records, {0: self._status_end})

    def add_connector(self) -> None:
        """Write the rows of one connector more."""
        name = ConnectorName(f"another-{self._config_end}")
        records = [encode(record) for record in _config_of(name, self._config_end)]
        entries = _log(records, self._config_end)
        self._config_end += len(records)
        self._config.apply(entries, {0: self._config_end})

    def works(self) -> dict[str, Callable[[], object]]:
        """Return what the projector does, by its name. The first one is done once."""
        some = self._topics.statuses[:_BATCH]
        return {
            ROWS: self.follow,
            "the rows of one connector more": self.add_connector,
            f"the rows of up to {_BATCH} statuses": lambda: self.write_statuses(some),
        }


def weigh(count: int) -> float:
    """Return how many MiB the leader's folded states of both topics take with so many connectors."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        topics = simulate(count)
        states = topics.state, topics.status
        del topics
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        assert len(states[0].connectors) == count
        return (after - before) / MIB
    finally:
        tracemalloc.stop()


def _time(work: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


def measure(counts: Sequence[int], rounds: int = _ROUNDS) -> dict[str, list[float]]:
    """Return the median seconds of each work, for each number of connectors: CPU time of the leader's thread, and the
    time that passes while rows are written.
    """
    seconds: dict[str, list[float]] = {}
    for count in counts:
        topics = simulate(count)
        times: dict[str, list[float]] = defaultdict(list)
        leader, rows = works(topics), Projected(topics).works()
        for _ in range(rounds):
            for name, work in leader.items():  # in this order: what one adds, the next one removes
                times[name].append(_time(work, time.thread_time))
        for name, work in rows.items():
            times[name] += [_time(work, time.perf_counter) for _ in range(1 if name == ROWS else rounds)]
        for name, each in times.items():
            seconds.setdefault(name, []).append(median(each))
        print(f"{count} connectors: " + ", ".join(f"{name} {each[-1]:.4f} s" for name, each in seconds.items()))
    return seconds


def table(seconds: Mapping[str, Sequence[float]], counts: Sequence[int]) -> str:
    """Return the works as rows, in milliseconds."""
    heads = "".join(f" {count:,} |" for count in counts)
    rows = [f"| work, with so many connectors |{heads} below {TARGET_S:g} s |", "|---|" + "--:|" * len(counts) + "---|"]
    for name, each in seconds.items():
        cells = "".join(f" {1000 * one:.2f} ms |" for one in each)
        reached = "once, at the start" if name in ONCE else yes_or_no(max(each) < TARGET_S)
        rows.append(f"| {name} |{cells} {reached} |")
    return "\n".join(rows)


def memory_table(weights: Sequence[float], counts: Sequence[int]) -> str:
    """Return the memory of the states as a row, in MiB."""
    heads = "".join(f" {count:,} |" for count in counts)
    cells = "".join(f" {weight:.2f} MiB |" for weight in weights)
    each = f"{1024 * weights[-1] / counts[-1]:.1f} kB"
    line = "|---|" + "--:|" * (len(counts) + 1)
    return f"| memory, with so many connectors |{heads} each |\n{line}\n| both states |{cells} {each} |"


def chart(seconds: Mapping[str, Sequence[float]], counts: Sequence[int]) -> str:
    """Return curves of what is done again and again: microseconds for each connector. A level line is linear growth, a
    falling one less.
    """
    lines = [
        f"  line [{', '.join(f'{1e6 * one / count:.2f}' for one, count in zip(each, counts, strict=True))}]"
        for name, each in seconds.items()
        if name not in ONCE
    ]
    axis = ", ".join(f'"{count:,}"' for count in counts)
    return "\n".join(
        [
            "```mermaid",
            "xychart-beta",
            f"  x-axis [{axis}]",
            '  y-axis "microseconds for each connector"',
            *lines,
            "```",
        ]
    )


def page(text: str, machine: Mapping[str, str]) -> str:
    """Return the text of benchmarks/results/leader.md."""
    return f"""\
# The leader's own work

`make bench ARGS="leader --write"` writes this page. A simulated cluster: {_WORKERS} workers, and connectors with a task
each, all of them running. In fact nothing runs, so this is what the leader computes, without Kafka and its plugins, and
what the projection writes into SQLite. "A pass" is what the leader's loop does again and again, from the members' modes
to the statuses that it reports; its writes have no effect here. A pass looks at what has changed since the last one, so
that its time hardly grows with the number of connectors, except for the first one of a term. Beyond what is shown here,
each connector is looked at once a minute, some in each pass: for 10,000 connectors, that is a first pass, spread over a
minute.

Each number is the median of {_ROUNDS}: CPU time of the leader's thread, and for rows the time that passes. What is done
once, at the start, need not be below {TARGET_S:g} s.

{text}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("leader", __doc__, PAGE)
    parser.add_argument("--connectors", type=int, nargs="+", default=list(COUNTS), metavar="N")
    args = parser.parse_args(argv)
    before = load()
    with tempfile.TemporaryDirectory(prefix="ringfence-leader-") as scratch:
        set_up_django(Path(scratch) / "leader.sqlite3")
        with patch.dict(os.environ, {"RINGFENCE_ENCRYPTION_KEYS": new_key()}):
            require_key()  # rows hold encrypted configurations
        seconds = measure(args.connectors)
    weights = [weigh(count) for count in args.connectors]
    tables = table(seconds, args.connectors), memory_table(weights, args.connectors)
    curves = "The works that are done again and again, as curves, in the order of the table:\n\n" + chart(
        seconds, args.connectors
    )
    text = "\n\n".join((*tables, curves))
    print(f"\n{text}")
    if args.write:
        write_page(PAGE, page(text, {**describe(), "load before the run": before}))
    return 0
