"""`python -m benchmarks streams`: copies from Kafka to Kafka, and a chain of transforms, compared with Kafka Connect.

KafkaSource and MirrorMaker 2's source connector, and FileStreamSource with three transforms and JsonConverter.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from confluent_kafka import Producer

from benchmarks import lines
from benchmarks.command import new_folder, new_parser, remove_data, write_page
from benchmarks.connect import MIRROR, TRANSFORMS
from benchmarks.jobs import INTERVAL_MS, JOBS, SIDES, Job
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import Numbers, medians, numbers, yes_or_no
from benchmarks.rest import BenchmarkError, Rest
from benchmarks.stand import CONNECT, OURS, Stand
from benchmarks.watch import Observation, observe
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics

PAGE = Path(__file__).resolve().parent / "results" / "streams.md"
TASK_MIB = 120
Results = Mapping[Job, Mapping[str, Numbers]]


def fill(bootstrap: str, topic: str, job: Job, count: int) -> None:
    """Write `count` different records of the job's size, distributed over the partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1_000_000})
    filler = b"abcdefghijklmnopqrstuvwxyz" * (job.size // 26 + 1)
    for number in range(count):
        value = (b"%012d " % number + filler)[: job.size]
        while True:
            try:
                producer.produce(topic, value, None, number % job.partitions)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(60):
        raise BenchmarkError(f"{topic} could not be filled")


class Streams:
    """The jobs' runs in one environment."""

    def __init__(self, stand: Stand, root: Path) -> None:
        self._stand = stand
        self._root = root
        self._number = 0

    def measured(self, job: Job, rounds: int) -> dict[str, list[Numbers]]:
        """Run each side in turn, after an unmeasured run of each."""
        few = min(job.count, 500_000)
        runs: dict[str, list[Numbers]] = {side: [] for side in SIDES}
        for side in SIDES:
            self._run(job, side, few)
            print(f"{job.name} warm {side}", flush=True)
        for number in range(rounds):
            for side in SIDES:
                count = job.records(side)
                one = numbers(self._run(job, side, count), count, interval=job.boundary == "interval")
                runs[side].append(one)
                print(
                    f"{job.name} {number + 1}/{rounds} {side:13} {one.records_s:>9,.0f} records/s "
                    f"{one.cpu_s_per_million:.2f} CPU s/million, first after {one.first_s:.2f} s, "
                    f"tree PSS {one.tree_pss_mib:.0f}, task RSS {one.task_rss_mib:.0f} MiB",
                    flush=True,
                )
        return runs

    def _run(self, job: Job, side: str, count: int) -> Observation:
        stand = self._stand
        self._number += 1
        input_name = self._input(job, count)
        topic = f"r{self._number}.{input_name}" if job.input == "topic" else f"streams-{self._number}"
        create_topics(stand.connection, [TopicSpec(topic, job.partitions)], Deadline.after(30))
        try:
            worker = stand.sides[side]
            with Rest(worker.url) as rest:
                rest.create(topic, job.config(side, stand.bootstrap, input_name, topic))
                try:
                    return observe(
                        stand.bootstrap, topic, count, worker.pid, lambda: rest.trouble(topic), 300.0, job.partitions
                    )
                finally:
                    rest.delete(topic)
        finally:
            delete_topics(stand.connection, [topic], Deadline.after(30))

    def _input(self, job: Job, count: int) -> str:
        """Return the input, created on first use."""
        if job.input == "file":
            path = self._root / f"{count}.txt"
            if not path.exists():
                lines.write(path, count)
            return str(path)
        topic = f"in-{job.size}-{job.partitions}-{count}"
        marker = self._root / topic
        if not marker.exists():
            spec = TopicSpec(topic, job.partitions)
            create_topics(self._stand.connection, [spec], Deadline.after(30))
            fill(self._stand.bootstrap, topic, job, count)
            marker.touch()
        return topic


def table(results: Results) -> str:
    """Return each job with both sides, and the ratios."""
    rows = [
        "| job | who | records/s | x Connect | MB/s | CPU s a million | x Connect | first record | tree PSS "
        "| task RSS |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for job, sides in results.items():
        for side, one in sides.items():
            peer = sides[CONNECT]
            rows.append(
                f"| {job.title} | {side} | {one.records_s:,.0f} | {one.records_s / peer.records_s:.2f} "
                f"| {one.records_s * job.size / 1e6:.0f} | {one.cpu_s_per_million:.2f} "
                f"| {one.cpu_s_per_million / peer.cpu_s_per_million:.2f} | {one.first_s:.2f} s "
                f"| {one.tree_pss_mib:.0f} MiB | {f'{one.task_rss_mib:.0f} MiB' if side == OURS else ''} |"
            )
    return "\n".join(rows)


def targets(results: Results) -> str:
    """Return the targets, and whether they were met."""
    rows = ["| target | measured | reached |", "|---|--:|---|"]
    for job, sides in results.items():
        one, peer = sides[OURS], sides[CONNECT]
        speed, cpu = one.records_s / peer.records_s, one.cpu_s_per_million / peer.cpu_s_per_million
        rows += [
            f"| {job.title}: at least {job.least:g} x Connect's records/s | {speed:.2f} x "
            f"| {yes_or_no(speed >= job.least)} |",
            f"| {job.title}: less CPU a record than Connect | {cpu:.2f} x | {yes_or_no(cpu < 1)} |",
            f"| {job.title}: a task's process below {TASK_MIB} MiB RSS | {one.task_rss_mib:.0f} MiB "
            f"| {yes_or_no(one.task_rss_mib < TASK_MIB)} |",
        ]
    return "\n".join(rows)


def page(results: Results, machine: Mapping[str, str], rounds: int) -> str:
    """Return the text of benchmarks/results/streams.md."""
    return f"""\
# Kafka to Kafka, and a chain of transforms

`make bench ARGS="streams --write"` writes this page. The real Kafka Connect 4.3.0 and Ringfence run side by side on one
broker, both exactly once. Each job runs on one and then on the other, {rounds} x after an unmeasured run; the table
shows the medians. Ringfence's input is four times as long, since it copies the other one within two or three
transactions. The copies compare MirrorMaker 2's source connector with KafkaSource: the same
configuration, ByteArrayConverter on both sides, and MirrorMaker's other work (offset syncs, ACLs, topic settings)
switched off. In the jobs with whole batches, the header converter is ByteArrayConverter, too, so that KafkaSource
passes on the record batches of its source as they are; in the others it is Connect's default, so that it looks for
headers first. Record by record, RegexRouter sees each record, and changes none. The chain is FileStreamSource,
HoistField, InsertField, ReplaceField, then JsonConverter with schemas.
Unless the job says otherwise, transactions end every {INTERVAL_MS} ms.
[docs/benchmarks.md](../../docs/benchmarks.md) explains how
records/s, CPU and memory are measured.

{table(results)}

## Targets

{targets(results)}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("streams", __doc__, PAGE, nice=True)
    parser.add_argument("--job", nargs="+", choices=[job.name for job in JOBS], help="only these (default: all)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measured rounds (default: 3)")
    args = parser.parse_args(argv)
    machine = describe() | {"load before the runs": load()}
    with new_folder("streams") as root, ExitStack() as stack:
        stack.callback(remove_data, root)
        with Stand(root, (MIRROR, TRANSFORMS), args.nice) as stand:
            streams = Streams(stand, root)
            jobs = [job for job in JOBS if args.job is None or job.name in args.job]
            runs = {job: streams.measured(job, args.rounds) for job in jobs}
    results = {job: {side: medians(each) for side, each in sides.items()} for job, sides in runs.items()}
    print(f"\n{table(results)}\n\n{targets(results)}")
    record = {
        job.name: {side: [asdict(one) for one in each] for side, each in sides.items()} for job, sides in runs.items()
    }
    (root / "results.json").write_text(json.dumps(record, indent=2))
    if args.write:
        write_page(PAGE, page(results, machine, args.rounds))
    return 0
