"""`python -m benchmarks kills`: how long a task delivers no records after SIGKILL of its worker.

Two workers, a connector with three tasks. The gap is what a consumer notices: the longest pause between two records of
one task at a read_committed consumer. The target is the worker's session timeout plus two seconds.
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
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.gaps import RECORDS_S, config
from benchmarks.machine import describe, foot, load
from benchmarks.ours import RingfenceWorker
from benchmarks.rest import BenchmarkError, Rest
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import wait_until
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port

PAGE = Path(__file__).resolve().parent / "results" / "kills.md"
SESSION_S = 10.0
TARGET_S = SESSION_S + 2.0
_TASKS = 3
_WORKERS = 2
_BACK_SECONDS = 90.0
_CALM_SECONDS = 5.0


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


def measure(worker: RingfenceWorker, connection: Connection, kills: int) -> list[float]:
    """Return, for each kill, the longest pause of any task in seconds."""
    topic = "kills"
    create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
    arrivals = ArrivalsByTask(connection, topic)
    pauses: list[float] = []
    try:
        with Rest(worker.url) as rest:
            rest.create(topic, config(topic, _TASKS, RECORDS_S))
            for number in range(kills):
                _await(f"before kill {number + 1}", arrivals, time.monotonic())
                # A pause before the next kill. The tasks may have moved, so their worker is looked up each time.
                time.sleep(_CALM_SECONDS)
                victim = rest.worker_of(topic, number % _TASKS)
                killed = time.monotonic()
                os.kill(worker.pid_of(victim), signal.SIGKILL)
                felt = _felt(arrivals, killed)
                pauses.append(felt)
                print(f"{number + 1}/{kills} {victim}: {felt:.2f} s", flush=True)
    finally:
        arrivals.close()
    return pauses


def _felt(arrivals: ArrivalsByTask, killed: float) -> float:
    """Wait until every task has delivered after a pause, or without one. Returns the longest pause."""
    if not wait_until(lambda: max(arrivals.pauses(killed, time.monotonic()).values()) > SESSION_S / 3, SESSION_S, 0.05):
        raise BenchmarkError("no task paused: the killed worker ran none")
    quiet = time.monotonic()
    _await("after a kill", arrivals, quiet)
    return max(arrivals.pauses(killed, time.monotonic()).values())


def table(seconds: Sequence[float]) -> str:
    """Return median and maximum, with the target."""
    within = sum(1 for one in seconds if one <= TARGET_S)
    return "\n".join(
        [
            f"| kills | median | longest | shortest | within {TARGET_S:g} s |",
            "|--:|--:|--:|--:|--:|",
            f"| {len(seconds)} | {median(seconds):.2f} s | {max(seconds):.2f} s | {min(seconds):.2f} s "
            f"| {within} of {len(seconds)} |",
        ]
    )


def page(tables: str, machine: Mapping[str, str]) -> str:
    """Return the text of benchmarks/results/kills.md."""
    return f"""\
# The gap after the loss of a worker

`make bench ARGS="kills --write"` writes this page. {_WORKERS} workers run a VerifiableSource connector
with {_TASKS} tasks, {RECORDS_S} records a second each, exactly once, `transaction.boundary=poll`. A worker that runs a
task gets SIGKILL, and `ringfence up` starts it again. The gap is the longest time in which a read_committed consumer
gets no record of one of the tasks. The session timeout is {SESSION_S:g} s: until it expires, the group does not know
that the worker is gone. The target is the session timeout plus two seconds.

{tables}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="ringfence-kills-"))
    before = load()
    try:
        with ExitStack() as stack:
            kafka = EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log")
            stack.callback(kafka.kill)
            kafka.start()
            worker = RingfenceWorker(root / "ringfence", kafka.bootstrap, workers=_WORKERS)
            stack.callback(worker.stop)
            worker.start()
            pauses = measure(worker, Connection(kafka.bootstrap, {"log_level": "0"}, client_id="benchmark"), args.kills)
    except (BenchmarkError, LocalError) as error:
        print(f"benchmarks: {error}\nlogs: {root}", file=sys.stderr)
        return 1
    print(table(pauses))
    if args.write:
        PAGE.write_text(page(table(pauses), {**describe(), "load before the run": before}))
        print(f"written: {PAGE}")
    return 0
