"""`python -m benchmarks kills`: how long a task delivers no records after SIGKILL of what it needs.

A connector with three tasks, on two workers and on one. The gap is what a consumer notices: the longest pause between
two records of one task at a read_committed consumer.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.gaps import RECORDS_S, config
from benchmarks.machine import describe, foot, load
from benchmarks.ours import RingfenceWorker
from benchmarks.processes import Tree, find_busiest
from benchmarks.rest import BenchmarkError, Rest
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import wait_until
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port
from ringfence.local.supervisor import CALM_SECONDS

PAGE = Path(__file__).resolve().parent / "results" / "kills.md"
_TASKS = 3
_BACK_SECONDS = 90.0
_CALM_SECONDS = 5.0
_WATCHED_SECONDS = 8.0
_LEAST_GAP_S = 0.05
"""A connector that delivers 200 records a second pauses for less than that if nothing happens to it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What is killed. median_s, longest_s: the targets; None for none."""

    title: str
    workers: int
    median_s: float | None
    longest_s: float | None


WORKER = Loss("a worker that does not lead, beside another one", 2, 3.0, 5.0)
LEADER = Loss("the leader, beside another worker", 2, None, 5.0)
PROCESS = Loss("a task's process", 2, None, 1.0)
ONLY = Loss("the only worker, which is started again", 1, None, 6.0)
LOSSES = (WORKER, LEADER, PROCESS, ONLY)


class ArrivalsByTask:
    """Records when a consumer receives records of each task, on a separate thread."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.times: dict[bytes, list[float]] = defaultdict(list)
        self._log = TopicLog(connection, topic)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            keys = {record.key or b"" for record in self._log.poll(0.02)}
            now = time.monotonic()
            for key in keys:
                self.times[key].append(now)

    def pauses(self, since: float, until: float) -> dict[bytes, float]:
        """Return the longest pause of each task, in seconds, between `since` and `until`."""
        longest = {}
        for key, times in list(self.times.items()):
            moments = [since, *(moment for moment in list(times) if since < moment < until), until]
            longest[key] = max(later - earlier for earlier, later in pairwise(moments))
        return longest

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self._log.close()


def _streaming(arrivals: ArrivalsByTask, since: float) -> bool:
    return len([1 for times in list(arrivals.times.values()) if times[-1] > since]) == _TASKS


def _await(what: str, arrivals: ArrivalsByTask, since: float) -> None:
    if not wait_until(lambda: _streaming(arrivals, since), _BACK_SECONDS, pause=0.05):
        raise BenchmarkError(f"not all tasks delivered records within {_BACK_SECONDS:.0f} s {what}")


def measure(
    worker: RingfenceWorker, connection: Connection, losses: Sequence[Loss], kills: int
) -> dict[Loss, list[float]]:
    """Return, for each kill, the longest pause of any task in seconds."""
    topic = f"kills-{losses[0].workers}"
    create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
    arrivals = ArrivalsByTask(connection, topic)
    pauses: dict[Loss, list[float]] = {loss: [] for loss in losses}
    calm_at = 0.0
    try:
        with Rest(worker.url) as rest:
            rest.create(topic, config(topic, _TASKS, RECORDS_S))
            for number in range(kills):
                for loss in losses:
                    _await(f"before kill {number + 1}", arrivals, time.monotonic())
                    # A pause before the next kill. The tasks may have moved, so their worker is looked up each time.
                    time.sleep(max(_CALM_SECONDS, 0.0 if loss is PROCESS else calm_at - time.monotonic()))
                    victim = _victim(loss, rest, worker, topic, number)
                    killed = time.monotonic()
                    os.kill(victim, signal.SIGKILL)
                    gap = _gap(arrivals, killed)
                    if loss is not PROCESS:
                        # `up` waits longer before it starts a worker that ends again and again.
                        calm_at = time.monotonic() + CALM_SECONDS
                    pauses[loss].append(gap)
                    print(f"{number + 1}/{kills} {loss.title}: {gap:.2f} s", flush=True)
            rest.delete(topic)
    finally:
        arrivals.close()
    return pauses


def _victim(loss: Loss, rest: Rest, worker: RingfenceWorker, topic: str, number: int) -> int:
    """Return the process to kill."""
    if loss is ONLY:
        return worker.pid
    if loss is PROCESS:
        tree = Tree(worker.pid_of(rest.worker_of(topic, number % _TASKS)))
        tree.cpu_seconds()  # lists its processes
        return find_busiest(tree.task_processes(), 1.0)
    leader, workers = rest.leader(), {rest.worker_of(topic, task) for task in range(_TASKS)}
    candidates = sorted(workers & {leader}) if loss is LEADER else sorted(workers - {leader})
    if not candidates:
        raise BenchmarkError(
            f"none of the tasks is on such a worker: {loss.title} (leader {leader}, tasks on {workers})"
        )
    return worker.pid_of(candidates[0])


def _gap(arrivals: ArrivalsByTask, killed: float) -> float:
    """Return the longest pause of a task, seen from the kill until long after every task has delivered again."""
    time.sleep(_WATCHED_SECONDS)
    _await("after a kill", arrivals, time.monotonic())
    gap = max(arrivals.pauses(killed, time.monotonic()).values())
    if gap < _LEAST_GAP_S:
        raise BenchmarkError("no task paused: what was killed ran none")
    return gap


def table(pauses: Mapping[Loss, Sequence[float]]) -> str:
    """Return medians and maxima, with the targets."""
    rows = ["| SIGKILL to | kills | median | longest | target | reached |", "|---|--:|--:|--:|---|---|"]
    for loss, seconds in pauses.items():
        middle, longest = median(seconds), max(seconds)
        targets = [(loss.median_s, middle, "median"), (loss.longest_s, longest, "longest")]
        words = ", ".join(f"{what} {limit:g} s" for limit, _, what in targets if limit is not None)
        reached = "yes" if all(limit is None or value <= limit for limit, value, _ in targets) else "no"
        rows.append(f"| {loss.title} | {len(seconds)} | {middle:.2f} s | {longest:.2f} s | {words} | {reached} |")
    return "\n".join(rows)


def page(tables: str, machine: Mapping[str, str]) -> str:
    """Return the text of benchmarks/results/kills.md."""
    return f"""\
# The gap after the loss of a worker or task

`make bench ARGS="kills --write"` writes this page. A VerifiableSource connector with {_TASKS} tasks delivers
{RECORDS_S} records a second with each, exactly once, `transaction.boundary=poll`, under `ringfence up` with two
workers, or with one. What a task needs gets SIGKILL, and `ringfence up` starts a worker again. The gap is the longest
time in which a read_committed consumer gets no record of one of the tasks.

{tables}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=4, metavar="N", help="of each kind (default: 4)")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="ringfence-kills-"))
    before = load()
    pauses: dict[Loss, list[float]] = {}
    try:
        with ExitStack() as stack:
            kafka = EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log")
            stack.callback(kafka.kill)
            kafka.start()
            connection = Connection(kafka.bootstrap, {"log_level": "0"}, client_id="benchmark")
            for workers in sorted({loss.workers for loss in LOSSES}, reverse=True):
                losses = [loss for loss in LOSSES if loss.workers == workers]
                worker = RingfenceWorker(root / f"ringfence-{workers}", kafka.bootstrap, workers=workers)
                with ExitStack() as running:
                    running.callback(worker.stop)
                    worker.start()
                    pauses |= measure(worker, connection, losses, args.kills)
    except (BenchmarkError, LocalError) as error:
        print(f"benchmarks: {error}\nlogs: {root}", file=sys.stderr)
        return 1
    print(table(pauses))
    if args.write:
        PAGE.write_text(page(table(pauses), {**describe(), "load before the run": before}))
        print(f"written: {PAGE}")
    return 0
