"""`python -m benchmarks latency`: the end-to-end latency of a record, with one transaction for each `poll`.

Records are written to a topic at an even rate, each with its time in it. KafkaSource on one side and MirrorMaker 2's
source connector on the other copy them; a read_committed consumer of the copy compares the time with its clock.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.connect import MIRROR
from benchmarks.jobs import BYTES, Job
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import yes_or_no
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.stand import CONNECT, OURS, Stand
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.local.errors import LocalError

PAGE = Path(__file__).resolve().parent / "results" / "latency.md"
RECORDS_S = 200
SETTLE_S = 8.0
MEDIAN_FACTOR, HIGH_FACTOR = 1.0, 1.0


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


def measure(stand: Stand, name: str, input_topic: str, alias: str, seconds: float) -> list[float]:
    """Return the milliseconds of each record that arrived, after a settling time."""
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
                return _arrivals(consumer, seconds, lambda: rest.trouble(topic))
            finally:
                rest.delete(topic)
    finally:
        beat.close()
        consumer.close()


def _arrivals(consumer: Consumer, seconds: float, trouble: Callable[[], str | None]) -> list[float]:
    latencies: list[float] = []
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
            latencies.append((now - int(value)) / 1e6)
    return latencies


def spread(times: Sequence[float]) -> tuple[float, float, float]:
    """Return median, 99th percentile and maximum."""
    return median(times), quantiles(times, n=100)[98], max(times)


def table(rounds_by_side: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Return the medians of the rounds."""
    rows = ["| who | records | median | 99 % | longest |", "|---|--:|--:|--:|--:|"]
    for side, rounds in rounds_by_side.items():
        middle, high, longest = _medians(rounds)
        count = sum(map(len, rounds))
        rows.append(f"| {side} | {count:,} | {middle:.1f} ms | {high:.1f} ms | {longest:.0f} ms |")
    ours, theirs = _medians(rounds_by_side[OURS]), _medians(rounds_by_side[CONNECT])
    rows += ["", "| target | measured | reached |", "|---|--:|---|"]
    for what, place, factor in (("median", 0, MEDIAN_FACTOR), ("99 %", 1, HIGH_FACTOR)):
        ratio = ours[place] / theirs[place]
        reached = yes_or_no(ratio <= factor)
        rows.append(f"| {what}: at most {factor:g} x Connect's | {ratio:.2f} x | {reached} |")
    return "\n".join(rows)


def _medians(rounds: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    each = [spread(one) for one in rounds]
    return median(one[0] for one in each), median(one[1] for one in each), median(one[2] for one in each)


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks latency", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default: 3)")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each round (default: 20)")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="on a machine with other work; needs root")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="ringfence-latency-"))
    machine = describe() | {"load before the runs": load()}
    latencies: dict[str, list[list[float]]] = {CONNECT: [], OURS: []}
    try:
        with Stand(root, (MIRROR,), args.nice) as stand:
            for number in range(args.rounds):
                for name in stand.sides:
                    alias = f"l{number}{name[0].lower()}"
                    times = measure(stand, name, f"latency-{alias}", alias, args.seconds)
                    latencies[name].append(times)
                    text = ", ".join(f"{one:.1f}" for one in spread(times))
                    print(f"{number + 1}/{args.rounds} {name:13} median, 99 %, longest: {text} ms", flush=True)
    except (BenchmarkError, LocalError) as error:
        print(f"benchmarks: {error}\nlogs: {root}", file=sys.stderr)
        return 1
    print(table(latencies))
    if args.write:
        PAGE.write_text(page(table(latencies), machine, args.rounds, args.seconds))
        print(f"written: {PAGE}")
    return 0
