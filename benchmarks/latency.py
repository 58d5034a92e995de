"""`python -m benchmarks latency`: the end-to-end latency of a record, with one transaction for each `poll`.

Records are written to a topic at an even rate, each with its time in it. KafkaSource on one side and MirrorMaker 2's
source connector on the other copy them; a read_committed consumer of the copy compares the time with its clock.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.connect import MIRROR
from benchmarks.jobs import BYTES, Job
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import yes_or_no
from benchmarks.processes import Tree
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.stand import CONNECT, OURS, Stand
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics

PAGE = Path(__file__).resolve().parent / "results" / "latency.md"
RECORDS_S = 200
SETTLE_S = 8.0
MOST_FACTOR = 1.0


@dataclass(frozen=True, slots=True)
class Round:
    """latencies: in milliseconds; cpu_s: of the worker and all that it has started, for each 1,000 records."""

    latencies: Sequence[float]
    cpu_s: float


class Beat:
    """Writes to a topic at an even rate until it is closed, on a separate thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        while not self._stop.is_set():
            self._producer.produce(self._topic, b"%d" % time.time_ns())
            self._producer.poll(0)
            number += 1
            self._stop.wait(max(0.0, began + number / RECORDS_S - time.monotonic()))

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self._producer.flush(10)


def measure(stand: Stand, name: str, input_topic: str, alias: str, seconds: float) -> Round:
    """Measure the records that arrive after a settling time."""
    side, topic = stand.sides[name], f"{alias}.{input_topic}"
    create_topics(stand.connection, [TopicSpec(input_topic), TopicSpec(topic)], Deadline.after(30))
    consumer = Consumer(
        {
            "bootstrap.servers": stand.bootstrap,
            "group.id": "benchmark",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            # The broker responds late to a waiting fetch after the end of a transaction: fetch often, on both sides.
            "fetch.wait.max.ms": 2,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    job = Job(alias, "", "topic", 0, 20, 0.0, boundary="poll", more=BYTES)
    beat = Beat(stand.bootstrap, input_topic)
    try:
        with Rest(side.url) as rest:
            rest.create(topic, job.config(name, stand.bootstrap, input_topic, topic))
            try:
                return _arrivals(consumer, seconds, Tree(side.pid), lambda: rest.trouble(topic))
            finally:
                rest.delete(topic)
    finally:
        beat.close()
        consumer.close()


def _arrivals(consumer: Consumer, seconds: float, tree: Tree, trouble: Callable[[], str | None]) -> Round:
    latencies: list[float] = []
    cpu_s = 0.0
    began: float | None = None
    limit = time.monotonic() + 60 + seconds
    while began is None or time.monotonic() < began + SETTLE_S + seconds:
        if time.monotonic() > limit:
            raise BenchmarkError(f"no records arrived\n{trouble()}")
        message = consumer.poll(0.5)
        now = time.time_ns()
        value = message.value() if message is not None and message.error() is None else None
        if value is None:
            continue
        began = began or time.monotonic()
        if time.monotonic() > began + SETTLE_S:
            if not latencies:
                cpu_s = tree.cpu_seconds()
            latencies.append((now - int(value)) / 1e6)
    return Round(latencies, (tree.cpu_seconds() - cpu_s) * 1000 / len(latencies))


def spread(times: Sequence[float]) -> tuple[float, float, float]:
    """Return median, 99th percentile and maximum."""
    return median(times), quantiles(times, n=100)[98], max(times)


def table(rounds_by_side: Mapping[str, Sequence[Round]]) -> str:
    """Return the medians of the rounds."""
    rows = ["| who | records | median | 99 % | longest | CPU s a thousand |", "|---|--:|--:|--:|--:|--:|"]
    for side, rounds in rounds_by_side.items():
        middle, high, longest, cpu_s = _medians(rounds)
        count = sum(len(one.latencies) for one in rounds)
        rows.append(f"| {side} | {count:,} | {middle:.1f} ms | {high:.1f} ms | {longest:.0f} ms | {cpu_s:.2f} |")
    ours, theirs = _medians(rounds_by_side[OURS]), _medians(rounds_by_side[CONNECT])
    rows += ["", "| target | measured | reached |", "|---|--:|---|"]
    for what, place in (("median", 0), ("99 %", 1), ("CPU time", 3)):
        ratio = ours[place] / theirs[place]
        reached = yes_or_no(ratio <= MOST_FACTOR)
        rows.append(f"| {what}: at most {MOST_FACTOR:g} x Connect's | {ratio:.2f} x | {reached} |")
    return "\n".join(rows)


def _medians(rounds: Sequence[Round]) -> list[float]:
    each = [(*spread(one.latencies), one.cpu_s) for one in rounds]
    return [median(column) for column in zip(*each, strict=True)]


def page(text: str, machine: Mapping[str, str], rounds: int, seconds: float) -> str:
    """Return the text of benchmarks/results/latency.md."""
    return f"""\
# End-to-end latency

`make bench ARGS="latency --write"` writes this page. {RECORDS_S} records a second are written to a topic at an even
rate, each with its timestamp. MirrorMaker 2's source connector in the real Kafka Connect 4.3.0, and KafkaSource in
Ringfence, copy them, exactly once, with `transaction.boundary=poll`: each `poll` is a transaction. A read_committed
consumer of the copy compares each record's timestamp with its clock as the record arrives. The latency thus includes
the source topic, the connector and the commit. Both run on one broker and take turns: {rounds} rounds of {seconds:g} s
each, after {SETTLE_S:g} s that are not counted. The table shows the medians of the rounds.

{text}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("latency", __doc__, PAGE, nice=True)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default: 3)")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each round (default: 20)")
    args = parser.parse_args(argv)
    machine = describe() | {"load before the runs": load()}
    rounds: dict[str, list[Round]] = {CONNECT: [], OURS: []}
    with new_folder("latency") as root, Stand(root, (MIRROR,), args.nice) as stand:
        for number in range(args.rounds):
            for name in stand.sides:
                alias = f"l{number}{name[0].lower()}"
                one = measure(stand, name, f"latency-{alias}", alias, args.seconds)
                rounds[name].append(one)
                text = ", ".join(f"{each:.1f}" for each in spread(one.latencies))
                print(
                    f"{number + 1}/{args.rounds} {name:13} median, 99 %, longest: {text} ms, {one.cpu_s:.2f} CPU s "
                    "a thousand",
                    flush=True,
                )
    print(table(rounds))
    if args.write:
        write_page(PAGE, page(table(rounds), machine, args.rounds, args.seconds))
    return 0
