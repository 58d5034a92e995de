"""`python -m benchmarks share`: what the ledger of a share group costs, and how tasks on one partition scale.

Records/s of ShareGroupSource with its ledger, of the same tasks without claim, check and states (at least once), and of
a bare share consumer that accepts what it reads. Then one task and ten on one partition, where each record takes 5 ms:
a consumer group would give nine of ten nothing to do.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from benchmarks.machine import describe, load
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.share_member import alter_share_group
from ringfence.fencing.share.settings import ShareSettings
from ringfence.local.errors import LocalError
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.process import free_port
from tests.guarantees.shares import FLOORS, Queue

_VALUE = b"x" * 100
_SECONDS = 180.0
_BATCH = 2000


def fill(queue: Queue, count: int, batch: int) -> None:
    """The broker locks whole producer batches, so their size is that of a poll."""
    pen = Producer({**queue.connection.librdkafka(), "batch.num.messages": batch, "linger.ms": 20})
    for number in range(count):
        while True:
            try:
                pen.produce(queue.source, _VALUE, partition=number % queue.partitions)
                break
            except BufferError:
                pen.poll(0.05)
    assert pen.flush(60) == 0


def count_visible(queue: Queue) -> int:
    return queue.read(queue.target).total()


def measure(queue: Queue, tasks: int, count: int, mode: str, **more: str) -> float:
    """Records/s from the first visible record to the last."""
    queue.configure(tasks, queue.settings(**more))
    for task in range(tasks):
        queue.start(task, mode)
    until = time.monotonic() + _SECONDS
    began, at_first = 0.0, 0
    while time.monotonic() < until:
        seen = count_visible(queue)
        if seen and not began:
            began, at_first = time.monotonic(), seen
        if seen >= count:
            break
        time.sleep(0.2)
    took = time.monotonic() - began
    queue.end()
    return (count - at_first) / took


def measure_bare(queue: Queue, count: int) -> float:
    """A loop around the client, with one acknowledgement a poll."""
    alter_share_group(queue.connection, "bare", ShareSettings().of_group, Deadline.after(30))
    settings = queue.connection.librdkafka(
        group_id="bare", share_acknowledgement_mode="explicit", max_poll_records=_BATCH
    )
    consumer = ShareConsumer(settings)
    consumer.subscribe([queue.source])
    began, seen = 0.0, 0
    until = time.monotonic() + _SECONDS
    while seen < count and time.monotonic() < until:
        messages = list(consumer.poll(0.5))
        if messages and not began:
            began = time.monotonic()
        for message in messages:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        seen += len(messages)
    took = time.monotonic() - began
    consumer.close()
    return seen / took


def main(argv: Sequence[str]) -> int:
    """Exit codes: 0 it ran (whatever it measured), 1 it could not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks share", description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--slow-records", type=int, default=6_000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args(argv)
    root = Path(tempfile.mkdtemp(prefix="ringfence-bench-share-"))
    floors = {name.replace("_", "."): value for name, value in FLOORS.items()}
    kafka = EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log", properties=floors)
    print({**describe(), "load before the runs": load()}, flush=True)
    try:
        kafka.start()
        connection = Connection(kafka.bootstrap)
        found: dict[str, list[float]] = {}
        for number in range(args.runs):
            for mode, what in (("exact", "with its ledger"), ("plain", "at least once, without")):
                queue = Queue(connection, f"{mode}{number}", root, partitions=1)
                fill(queue, args.records, _BATCH)
                found.setdefault(what, []).append(measure(queue, 1, args.records, mode))
                if mode == "plain":
                    found.setdefault("a bare share consumer", []).append(measure_bare(queue, args.records))
                queue.close()
            for tasks in (1, 10):
                count = args.slow_records * tasks // 10
                queue = Queue(connection, f"slow{tasks}-{number}", root, partitions=1)
                fill(queue, count, 50)
                rate = measure(queue, tasks, count, "exact", slow_ms="5", batch_size="50")
                found.setdefault(f"{tasks} task(s), 5 ms a record", []).append(rate)
                queue.close()
            print({what: round(each[-1]) for what, each in found.items()}, flush=True)
    except LocalError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    finally:
        kafka.stop()
    rates = {what: median(each) for what, each in found.items()}
    for what, rate in rates.items():
        print(f"{what}: {rate:,.0f} records/s")
    print(f"with the ledger: {rates['with its ledger'] / rates['at least once, without']:.0%} of at least once")
    print(f"ten tasks: {rates['10 task(s), 5 ms a record'] / rates['1 task(s), 5 ms a record']:.1f} times one")
    return 0
