"""`python -m benchmarks fence`: how long it takes to fence the transactional ids of many tasks.

It does what a round does between the old tasks' end and the count record: a new connection, and one InitProducerId
request per id.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import yes_or_no
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.leader.fence_generation import fence
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port

PAGE = Path(__file__).resolve().parent / "results" / "fencing.md"
TARGET_S = 1.0
NEW, KNOWN, OPEN = "never used before", "all used before", "all used before, {} with a transaction open"
_SECONDS = 60.0


def seconds(connection: Connection, ids: Sequence[str]) -> float:
    """Return the seconds of one fence of all ids, including the connection."""
    began = time.monotonic()
    fenced = fence(ids, [AdminAccess("the worker's credentials", connection)])
    took = time.monotonic() - began
    assert len(fenced.producers) == len(ids)
    return took


def measure(connection: Connection, count: int, opened: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round, by the earlier use of the ids. Each round has its own ids."""
    topic = "fenced"
    create_topics(connection, [TopicSpec(topic)], Deadline.after(_SECONDS))
    seconds(connection, ["warm"])  # the very first id makes the broker create its topic
    times: dict[str, list[float]] = {NEW: [], KNOWN: [], OPEN.format(opened): []}
    for number in range(rounds):
        ids = [f"group-connector{number}-{task}" for task in range(count)]
        times[NEW].append(seconds(connection, ids))
        times[KNOWN].append(seconds(connection, ids))
        holders = [Producer(connection, one) for one in ids[:opened]]
        for holder in holders:
            holder.init(Deadline.after(_SECONDS))
            holder.begin()
            holder.produce(topic, b"open")
            assert holder.flush(_SECONDS) == 0
        times[OPEN.format(opened)].append(seconds(connection, ids))
        for holder in holders:
            holder.close()
        text = ", ".join(f"{what} {each[-1]:.3f} s" for what, each in times.items())
        print(f"{number + 1}/{rounds} {count} ids: {text}", flush=True)
    return times


def table(seconds_by_change: Mapping[str, Sequence[float]], count: int) -> str:
    """Return medians and maxima, with the target."""
    rows = [f"| {count:,} ids | median | longest | below {TARGET_S:g} s |", "|---|--:|--:|---|"]
    for what, each in seconds_by_change.items():
        reached = yes_or_no(median(each) < TARGET_S)
        rows.append(f"| {what} | {median(each):.2f} s | {max(each):.2f} s | {reached} |")
    return "\n".join(rows)


def page(tables: str, machine: Mapping[str, str], rounds: int) -> str:
    """Return the text of benchmarks/results/fencing.md."""
    return f"""\
# Fencing many tasks

`make bench ARGS="fence --write"` writes this page. It measures step 2 of a fencing round: a new connection to the
broker, and one InitProducerId request for each transactional id, all in flight at once. The coordinator aborts an open
transaction first, and answers "try again" for a moment while it does. {rounds} rounds, each with its own ids.

{tables}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("fence", __doc__, PAGE)
    parser.add_argument("--ids", type=int, default=1000, metavar="N", help="transactional ids (default: 1000)")
    parser.add_argument("--open", type=int, default=50, metavar="N", help="open transactions among them (default: 50)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    args = parser.parse_args(argv)
    before = load()
    with new_folder("fence") as root, ExitStack() as stack:
        kafka = EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log")
        stack.callback(kafka.kill)
        kafka.start()
        times = measure(Connection(kafka.bootstrap), args.ids, min(args.open, args.ids), args.rounds)
    text = table(times, args.ids)
    print(f"\n{text}")
    if args.write:
        machine = {**describe(), "load before the run": before}
        if os.nice(0):
            machine["shared with other work"] = f"broker and measuring ran at nice {os.nice(0)}, alike"
        write_page(PAGE, page(text, machine, args.rounds))
    return 0
