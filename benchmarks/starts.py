"""`python -m benchmarks starts`: how long connectors take to start with a long offsets topic of others.

An offsets topic with Ringfence's settings is filled with offsets of other connectors, then `ringfence up` starts on it.
It measures how long the worker reads the topic, one connector from the request to RUNNING, and four at once; and the
same with an empty topic for comparison. The exit code is 1 if the shortest round exceeds its limit: other load on the
machine makes rounds longer, but never shorter.
"""

import re
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka import Producer

from benchmarks import start_stages
from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.ours import RingfenceWorker
from benchmarks.processes import Tree
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.start_stages import Start
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.stores import offsets_topic_spec
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port

RECORDS, CONNECTORS, KEYS = 3_000_000, 200, 10_000
ONE_S, FOUR_S = 2.0, 4.0
PAGE = Path(__file__).resolve().parent / "results" / "starts.md"
_LIMIT_S = 120.0
_SETTLE_S = 5.0
_READ = re.compile(r"Topic \S+ is read: (\d+) records, (\d+) source partitions, about (\d+) MiB, in ([\d.]+) s")


@dataclass(frozen=True, slots=True)
class Starts:
    """records, read_s: from the worker's log about reading the topic. one_s, four_s: seconds from the first request
    until all are RUNNING. one_cpu_s: of the worker's process tree for one start. The last two: see `start_stages`.
    """

    records: int
    read_s: float
    one_s: Sequence[float]
    four_s: Sequence[float]
    one_cpu_s: Sequence[float]
    one_steps: Mapping[str, float]
    four_steps: Mapping[str, float]


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Write offsets as tasks of file connectors would commit them, each key many times."""
    create_topics(
        Connection(bootstrap),
        [offsets_topic_spec(topic, {"offset.storage.replication.factor": "1"})],
        Deadline.after(30),
    )
    producer = Producer(
        Connection(bootstrap).librdkafka(
            linger_ms=50, batch_size=100_000, queue_buffering_max_messages=500_000, partitioner="murmur2_random"
        )
    )
    for number in range(records):
        key = number % KEYS
        name = b'["other-%d",{"filename":"/data/file-%d"}]' % (key % CONNECTORS, key)
        while True:
            try:
                producer.produce(topic, b'{"position":%d}' % number, name)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise BenchmarkError("the offsets topic could not be filled")


def config(topic: str) -> dict[str, str]:
    """Return the configuration of one small task."""
    converters = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "tasks.max": "1",
        "topic": topic,
        "throughput": "10",
        "key.converter": converters,
        "value.converter": converters,
    }


def start(url: str, names: Sequence[str], requests: list[Start] | None = None) -> float:
    """Return the seconds until all are RUNNING. They are deleted afterwards. requests: gets each name and its request
    time.
    """

    def one(name: str) -> float:
        with Rest(url) as rest:
            if requests is not None:
                requests.append((name, time.time()))
            rest.create(name, config("starts"))
            while rest.running(name) != 1:
                if trouble := rest.trouble(name):
                    raise BenchmarkError(f"connector {name} failed: {trouble}")
                if time.monotonic() - began > _LIMIT_S:
                    raise BenchmarkError(f"connector {name} was not RUNNING within {_LIMIT_S:.0f} s")
                time.sleep(0.02)
            return time.monotonic() - began

    began = time.monotonic()
    with ThreadPoolExecutor(len(names)) as pool:
        took = max(pool.map(one, names))
    with Rest(url) as rest:
        for name in names:
            rest.delete(name)
    return took


def measure(root: Path, records: int, rounds: int) -> Starts:
    """Measure with a separate broker and Ringfence."""
    kafka = EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log")
    kafka.start()
    side = RingfenceWorker(root / "ringfence", kafka.bootstrap, slots=8)
    try:
        fill(kafka.bootstrap, "connect-offsets", records)
        create_topics(Connection(kafka.bootstrap), [TopicSpec("starts")], Deadline.after(30))
        side.start()
        read = _view(root / "ringfence" / "logs" / "worker-1.log")
        start(side.url, ["warm"])
        time.sleep(_SETTLE_S)
        tree = Tree(side.pid)
        one, cpu = [], []
        ones, fours = list[Start](), list[Start]()
        for number in range(rounds):
            before = tree.cpu_seconds()
            one.append(start(side.url, [f"one-{number}"], ones))
            cpu.append(tree.cpu_seconds() - before)
        four = [start(side.url, [f"four-{number}-{each}" for each in range(4)], fours) for number in range(rounds)]
        steps = [start_stages.read(Connection(kafka.bootstrap), "connect-events", each) for each in (ones, fours)]
        return Starts(int(read[1]), float(read[4]), one, four, cpu, *steps)
    finally:
        side.stop()
        kafka.kill()
        shutil.rmtree(root / "kafka", ignore_errors=True)


def _view(log: Path) -> re.Match[str]:
    deadline = Deadline.after(_LIMIT_S)
    while not deadline.expired:
        if match := _READ.search(log.read_text() if log.exists() else ""):
            return match
        time.sleep(0.2)
    raise BenchmarkError(f"the worker has not read its offsets topic within {_LIMIT_S:.0f} s: see {log}")


def table(results: Mapping[str, Starts]) -> str:
    """Return the shortest round and the median."""
    rows = [
        "| offsets topic | the worker reads it in | one start: shortest | median | its processor time "
        "| four at once: shortest | median |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, one in results.items():
        rows.append(
            f"| {name} | {one.read_s:.1f} s | {min(one.one_s):.2f} s | {median(one.one_s):.2f} s "
            f"| {median(one.one_cpu_s):.2f} s | {min(one.four_s):.2f} s | {median(one.four_s):.2f} s |"
        )
    return "\n".join(rows)


def steps_table(results: Mapping[str, Starts]) -> str:
    """Return the medians of the steps."""
    return start_stages.table(
        {f"{what}, {name}": steps for name, each in results.items() for what, steps in steps_of(each).items()}
    )


def page(results: Mapping[str, Starts], machine: Mapping[str, str], rounds: int) -> str:
    """Return the text of benchmarks/results/starts.md."""
    return f"""\
# How long connectors take to start beside a long offsets topic

`make bench ARGS="starts --write"` writes this page. All connectors of a cluster share the offsets topic. Each worker
reads it once and follows it, and an attempt reads only what came after its worker's snapshot, so a start should not
depend on other connectors' offsets. Measured: from the request that creates a small connector until it is RUNNING, one
by itself and four at once, {rounds} rounds each, with one worker.

{table(results)}

The limits apply to the shortest round with the long topic: one start in {ONE_S:g} s, four at once in {FOUR_S:g} s. The
machine did other work at the same time (see its load below), which makes rounds longer.

## Where the time goes

Medians, from the events that the leader and the task report. The first step begins with the request. "Four" are four
connectors at once: each waits for the others' share of the processors.

{steps_table(results)}

{foot(machine)}"""


def steps_of(one: Starts) -> dict[str, Mapping[str, float]]:
    """Return the steps for a table."""
    return {"one": one.one_steps, "four": one.four_steps}


def main(argv: Sequence[str]) -> int:
    """Exit codes: 0 both limits are kept, 1 one is not, or it could not be measured."""
    parser = new_parser("starts", __doc__, PAGE)
    parser.add_argument("--records", type=int, default=RECORDS, metavar="N", help=f"(default: {RECORDS:,})")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default: 3)")
    args = parser.parse_args(argv)
    before = load()
    print(f"{describe()} load {before}", flush=True)
    results: dict[str, Starts] = {}
    with new_folder("starts") as root:
        for name, records in (("empty", 0), (f"{args.records:,} records of others", args.records)):
            results[name] = measure(root / str(records), records, args.rounds)
            print(f"{name}: {results[name]}", flush=True)
    print(f"\n{table(results)}\n\n{steps_table(results)}\n")
    if args.write:
        write_page(PAGE, page(results, {**describe(), "load before the runs": before}, args.rounds))
    long = list(results.values())[-1]
    one, four = min(long.one_s), min(long.four_s)
    print(f"one start in under {ONE_S:g} s: {one:.2f} s\nfour at once in under {FOUR_S:g} s: {four:.2f} s")
    return 0 if one < ONE_S and four < FOUR_S else 1
