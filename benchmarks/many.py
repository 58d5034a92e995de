"""`python -m benchmarks many`: a hundred small connectors, the time until all are RUNNING, and their memory.

One task and one record per second each, on one worker of each side. The two sides do not run at the same time. Then
Ringfence's worker is killed, and its connectors are created again by one request.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.connect import VERIFIABLE
from benchmarks.machine import describe, foot, load
from benchmarks.processes import MIB, Tree
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.sides import Side
from benchmarks.stand import CONNECT, OURS, Stand
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.status import State, TaskStatus, decode
from ringfence.fencing.topics.topic_log import Isolation, TopicLog
from ringfence.local.errors import LocalError

SHARED = "Ringfence, task.isolation=shared"
PAGE = Path(__file__).resolve().parent / "results" / "many.md"
COUNT = 100
TOPIC = "many"
MEMORY_FACTOR, TIME_FACTOR = 1.5, 1.0
RESTART_SECONDS, BULK_SECONDS = 20.0, 10.0
STATUS_TOPIC = "connect-status"
_LIMIT_S = 600.0
_WHO: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "connect": (CONNECT, CONNECT, {}),
    "ours": (OURS, OURS, {}),
    "shared": (SHARED, OURS, {"CONNECT_TASK_ISOLATION": "shared"}),
}
"""For each choice: its name, who runs, and the worker's settings."""
_SETTLE_S = 10.0
_READY_S = 15.0
"""Processes that decode records start ten seconds after the worker: their memory is no connector's."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """created_s, running_s: from the first request until the last was answered, and until all tasks were RUNNING.
    before_mib, after_mib: PSS of the worker's process tree. cpu_s: of the tree, from the first request on. idle_cores:
    CPU usage once all run. restart_s: from SIGKILL of the worker until all tasks were RUNNING again; bulk_s: from one
    request that creates all connectors until all tasks were RUNNING. Both are None for Kafka Connect.
    """

    created_s: float
    running_s: float
    before_mib: float
    after_mib: float
    cpu_s: float
    idle_cores: float
    restart_s: float | None = None
    bulk_s: float | None = None


def config() -> dict[str, str]:
    """Return the configuration, the same for both sides."""
    converters = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "tasks.max": "1",
        "topic": TOPIC,
        "throughput": "1",
        "exactly.once.support": "requested",
        "key.converter": converters,
        "value.converter": converters,
    }


def measure(side: Side, count: int) -> Crowd:
    """Create them one after another, like a script, and wait."""
    tree = Tree(side.pid)
    time.sleep(_READY_S)
    cpu = tree.cpu_seconds()
    before = tree.memory().pss / MIB
    names = [f"small-{number}" for number in range(count)]
    began = time.monotonic()
    with Rest(side.url) as rest:
        for name in names:
            rest.create(name, config())
        created = time.monotonic() - began
        await_running(rest, count, began)
        running = time.monotonic() - began
        used = tree.cpu_seconds() - cpu
        time.sleep(_SETTLE_S)
        idle_from, idle_at = tree.cpu_seconds(), time.monotonic()
        time.sleep(_SETTLE_S)
        idle = (tree.cpu_seconds() - idle_from) / (time.monotonic() - idle_at)
        return Crowd(created, running, before, tree.memory().pss / MIB, used, idle)


def await_running(rest: Rest, count: int, began: float) -> None:
    """Wait until all tasks of `count` connectors run. began: monotonic seconds. Raises `BenchmarkError`."""
    while (left := count - rest.all_running()) > 0:
        if time.monotonic() - began > _LIMIT_S:
            raise BenchmarkError(f"{left} of {count} connectors were not RUNNING within {_LIMIT_S:.0f} s")
        time.sleep(0.25)


def restart(side: Side, connection: Connection, count: int) -> float:
    """Kill the only worker, which `up` starts again. Return the seconds until all tasks have reported RUNNING since,
    and the API shows it.
    """
    log = TopicLog(connection, STATUS_TOPIC, isolation=Isolation.UNCOMMITTED)
    try:
        log.restart(log.request_ends(Deadline.after(30)))
        began = time.monotonic()
        os.kill(side.pid, signal.SIGKILL)
        running: set[str] = set()
        while len(running) < count:
            if time.monotonic() - began > _LIMIT_S:
                raise BenchmarkError(f"{count - len(running)} tasks were not RUNNING {_LIMIT_S:.0f} s after a restart")
            for record in log.poll(0.1):
                entry = decode(record.key, record.value)
                if isinstance(entry, TaskStatus) and entry.state is State.RUNNING:
                    running.add(entry.task.connector)
    finally:
        log.close()
    with Rest(side.url) as rest:
        await_running(rest, count, began)
    return time.monotonic() - began


def create_at_once(side: Side, count: int) -> float:
    """Delete the connectors, and create others by one request. Return the seconds until all tasks were RUNNING."""
    with Rest(side.url) as rest:
        rest.delete_all([f"small-{number}" for number in range(count)])
        time.sleep(_SETTLE_S)
        began = time.monotonic()
        rest.create_all({f"bulk-{number}": config() for number in range(count)})
        await_running(rest, count, began)
        return time.monotonic() - began


def table(crowds_by_side: Mapping[str, Sequence[Crowd]], count: int) -> str:
    """Return medians, and the targets."""
    rows = [
        "| who | all created | all RUNNING | CPU until then | memory before | with all | each | CPU when all run "
        "| worker killed: all RUNNING again | by one request: all RUNNING |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    middle = {name: _median(crowds) for name, crowds in crowds_by_side.items()}
    for name, one in middle.items():
        rows.append(
            f"| {name} | {one.created_s:.1f} s | {one.running_s:.1f} s | {one.cpu_s:.1f} s | {one.before_mib:.0f} MiB "
            f"| {one.after_mib:.0f} MiB | {(one.after_mib - one.before_mib) / count:.1f} MiB "
            f"| {one.idle_cores:.2f} cores | {_seconds(one.restart_s)} | {_seconds(one.bulk_s)} |"
        )
    ours, theirs = middle[OURS], middle[CONNECT]
    soon, small = ours.running_s / theirs.running_s, ours.after_mib / theirs.after_mib
    rows += [
        "",
        "| target | measured | reached |",
        "|---|--:|---|",
        f"| RUNNING no later than Connect's | {soon:.2f} x | {'yes' if soon <= TIME_FACTOR else 'no'} |",
        f"| at most {MEMORY_FACTOR:g} x Connect's memory | {small:.2f} x "
        f"| {'yes' if small <= MEMORY_FACTOR else 'no'} |",
    ]
    if shared := middle.get(SHARED):
        rows += [
            _target("shared processes: RUNNING again after the worker was killed", shared.restart_s, RESTART_SECONDS),
            _target("shared processes: RUNNING after one request", shared.bulk_s, BULK_SECONDS),
        ]
    return "\n".join(rows)


def _target(what: str, seconds: float | None, limit: float) -> str:
    reached = "yes" if seconds is not None and seconds <= limit else "no"
    return f"| {what} within {limit:g} s | {_seconds(seconds)} | {reached} |"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _median(crowds: Sequence[Crowd]) -> Crowd:
    medians: dict[str, Any] = {}
    for each in fields(Crowd):
        values = [value for one in crowds if (value := getattr(one, each.name)) is not None]
        medians[each.name] = median(values) if values else None
    return Crowd(**medians)


def page(text: str, machine: Mapping[str, str], count: int, rounds: int) -> str:
    """Return the text of benchmarks/results/many.md."""
    return f"""\
# A hundred small connectors

`make bench ARGS="many --write"` writes this page. {count} VerifiableSource connectors with one task and
one record a second each, exactly once, are created over REST one after another, first on one worker of the real Kafka
Connect 4.3.0 and then on one Ringfence worker (`ringfence up --slots {count + 20}`), each with its own broker. By
default each of Ringfence's tasks has a process; with `task.isolation=shared`, small ones share some. Number of
rounds: {rounds}; the table shows the medians. Memory is the PSS of the worker's whole process tree, {_SETTLE_S:g} s
after all were RUNNING. Ringfence's web process is not part of a worker and is not included. Then Ringfence's worker
gets SIGKILL, and `ringfence up` starts it again; and after a deletion of all connectors, as many others are created by
one request (`POST /api/v1/import`).

{text}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks many", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="rounds (default: 1)")
    parser.add_argument("--count", type=int, default=COUNT, metavar="N", help=f"connectors (default: {COUNT})")
    parser.add_argument("--who", nargs="+", choices=list(_WHO), default=list(_WHO))
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="on a machine with other work; needs root")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="ringfence-many-"))
    machine = describe() | {"load before the runs": load()}
    crowds: dict[str, list[Crowd]] = {}
    try:
        for number in range(args.rounds):
            for who in args.who:
                name, side, settings = _WHO[who]
                stand = Stand(
                    root / f"{number}-{who}",
                    (VERIFIABLE,),
                    args.nice,
                    slots=args.count + 20,
                    who=(side,),
                    settings=settings,
                )
                with stand:
                    create_topics(stand.connection, [TopicSpec(TOPIC)], Deadline.after(30))
                    crowd = measure(stand.sides[side], args.count)
                    if side == OURS:
                        restart_s = restart(stand.sides[side], stand.connection, args.count)
                        bulk_s = create_at_once(stand.sides[side], args.count)
                        crowd = replace(crowd, restart_s=restart_s, bulk_s=bulk_s)
                    crowds.setdefault(name, []).append(crowd)
                print(f"{number + 1}/{args.rounds} {name:13} {crowds[name][-1]}", flush=True)
    except (BenchmarkError, LocalError) as error:
        print(f"benchmarks: {error}\nlogs: {root}", file=sys.stderr)
        return 1
    if not {CONNECT, OURS} <= crowds.keys():
        return 0
    print(table(crowds, args.count))
    if args.write:
        PAGE.write_text(page(table(crowds, args.count), machine, args.count, args.rounds))
        print(f"written: {PAGE}")
    return 0
