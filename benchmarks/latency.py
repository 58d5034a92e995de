"""`python -m benchmarks latency`: how long a record is on its way, one transaction for each `poll`.

VerifiableSource on both sides, with the moment of its making in each record; a read_committed consumer looks at the
clock when it gets one.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import Consumer, TopicPartition

from benchmarks.connect import VERIFIABLE
from benchmarks.machine import describe, foot, load
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.sides import Side
from benchmarks.stand import CONNECT, OURS, Stand
from fencing.clock import Deadline
from fencing.kafka.admin import TopicSpec, create_topics
from ringfence.local.errors import LocalError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks-latency.md"
RECORDS_S = 200
SETTLE_S = 8.0
MEDIAN_FACTOR, HIGH_FACTOR = 1.5, 1.0


def config(topic: str) -> dict[str, str]:
    """The same for both sides."""
    converters = "org.apache.kafka.connect."
    return {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "tasks.max": "1",
        "topic": topic,
        "throughput": str(RECORDS_S),
        "complete.record.data": "true",
        "exactly.once.support": "requested",
        "transaction.boundary": "poll",
        "key.converter": f"{converters}storage.StringConverter",
        "value.converter": f"{converters}json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def measure(stand: Stand, side: Side, topic: str, seconds: float) -> list[float]:
    """Milliseconds of each record that arrived, once the connector has run for a while."""
    create_topics(stand.connection, [TopicSpec(topic)], Deadline.after(30))
    consumer = Consumer(
        {
            "bootstrap.servers": stand.bootstrap,
            "group.id": "benchmark",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            # The broker tells a waiting fetch late that a transaction is over: ask often, alike for both.
            "fetch.wait.max.ms": 2,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[float] = []
    try:
        with Rest(side.url) as rest:
            rest.create(topic, config(topic))
            try:
                began: float | None = None
                limit = time.monotonic() + 60 + seconds
                while began is None or time.monotonic() < began + SETTLE_S + seconds:
                    if time.monotonic() > limit:
                        raise BenchmarkError(f"{topic}: no records came\n{rest.trouble(topic)}")
                    message = consumer.poll(0.5)
                    now = time.time() * 1000
                    value = message.value() if message is not None and message.error() is None else None
                    if value is None:
                        continue
                    began = began or time.monotonic()
                    if time.monotonic() > began + SETTLE_S:
                        found.append(now - json.loads(value)["time_ms"])
            finally:
                rest.delete(topic)
    finally:
        consumer.close()
    return found


def spread(times: Sequence[float]) -> tuple[float, float, float]:
    """Median, 99 % and the longest."""
    return median(times), quantiles(times, n=100)[98], max(times)


def table(found: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Medians of the rounds."""
    rows = ["| who | records | median | 99 % | longest |", "|---|--:|--:|--:|--:|"]
    for side, rounds in found.items():
        middle, high, longest = _medians(rounds)
        count = sum(map(len, rounds))
        rows.append(f"| {side} | {count:,} | {middle:.1f} ms | {high:.1f} ms | {longest:.0f} ms |")
    ours, theirs = _medians(found[OURS]), _medians(found[CONNECT])
    rows += ["", "| target | measured | reached |", "|---|--:|---|"]
    for what, place, factor in (("median", 0, MEDIAN_FACTOR), ("99 %", 1, HIGH_FACTOR)):
        ratio = ours[place] / theirs[place]
        reached = "yes" if ratio <= factor else "no"
        rows.append(f"| {what}: at most {factor:g} x Connect's | {ratio:.2f} x | {reached} |")
    return "\n".join(rows)


def _medians(rounds: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    each = [spread(one) for one in rounds]
    return median(one[0] for one in each), median(one[1] for one in each), median(one[2] for one in each)


def page(shown: str, machine: Mapping[str, str], rounds: int, seconds: float) -> str:
    """docs/benchmarks-latency.md."""
    return f"""\
# A record's time on its way

`make bench ARGS="latency --write"` writes this page. VerifiableSource makes {RECORDS_S} records a second with the
moment of their making in them; `transaction.boundary=poll` ends a transaction with each `poll`. A read_committed
consumer on the same machine takes the difference to its own clock as each record arrives, so the commit is in it. The
real Kafka Connect 4.3.0 and Ringfence stand on one broker and take turns: {rounds} rounds of {seconds:g} s each, after
{SETTLE_S:g} s that are not counted. Milliseconds are rounded down where a record is made. The table holds the medians
of the rounds.

{shown}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Exit codes as of `python -m benchmarks`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks latency", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default: 3)")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each round (default: 20)")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="on a machine with other work; needs root")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    args = parser.parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="ringfence-latency-"))
    machine = describe() | {"load before the runs": load()}
    found: dict[str, list[list[float]]] = {CONNECT: [], OURS: []}
    try:
        with Stand(root, (VERIFIABLE,), args.nice) as stand:
            for number in range(args.rounds):
                for name, side in stand.sides.items():
                    topic = f"latency-{number}-{name.lower().replace(' ', '-')}"
                    times = measure(stand, side, topic, args.seconds)
                    found[name].append(times)
                    shown = ", ".join(f"{one:.1f}" for one in spread(times))
                    print(f"{number + 1}/{args.rounds} {name:13} median, 99 %, longest: {shown} ms", flush=True)
    except (BenchmarkError, LocalError) as error:
        print(f"benchmarks: {error}\nlogs: {root}", file=sys.stderr)
        return 1
    print(table(found))
    if args.write:
        PAGE.write_text(page(table(found), machine, args.rounds, args.seconds))
        print(f"written: {PAGE}")
    return 0
