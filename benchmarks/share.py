"""`python -m benchmarks share`: the cost of a share group's ledger, and how tasks on one partition scale.

It measures records/s of one ShareGroupSource task with its ledger, of the same task without claim, check and states (at
least once), and of a bare share consumer that accepts what it reads. Then one task and ten on one partition, with 5 ms
per record: a consumer group would leave nine of ten idle.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from benchmarks.command import new_folder, new_parser, write_page
from benchmarks.machine import describe, foot, load
from benchmarks.numbers import numbers
from benchmarks.rest import BenchmarkError
from benchmarks.watch import observe
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import alter_share_group
from ringfence.fencing.share.settings import ShareSettings
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port
from tests.guarantees.shares import FLOORS, Queue

PAGE = Path(__file__).resolve().parent / "results" / "share.md"
LEDGER, PLAIN, BARE = "with the ledger, exactly once", "without it, at least once", "a bare share consumer, no output"
SHARE_OF_PLAIN, TIMES = 0.6, 8.0
_VALUE = b"x" * 100
_BATCH = 2000
_SLOW_MS, _SLOW_BATCH, _SLOW_TASKS = 5, 200, 10
"""Few and long transactions, so that it matters little how soon each one gets a processor at its end."""
_MINUTES = 8.0
_LIMIT_S = 300.0


def fill(queue: Queue, count: int, batch: int) -> None:
    """Fill the input. The broker locks whole producer batches, so their size is that of a poll."""
    settings = queue.connection.librdkafka(batch_num_messages=batch, linger_ms=50, batch_size=1_000_000)
    pen = Producer(settings)
    for _ in range(count):
        while True:
            try:
                pen.produce(queue.source, _VALUE, partition=0)
                break
            except BufferError:
                pen.poll(0.05)
    if pen.flush(60):
        raise BenchmarkError(f"{queue.source} could not be filled")


def measure(queue: Queue, count: int, mode: str) -> tuple[float, float]:
    """Return records/s, and CPU seconds of the task per million, from the first visible record to the last."""
    fill(queue, count, _BATCH)
    queue.configure(1, queue.settings(batch_size=str(_BATCH)))
    process = queue.start(0, mode)
    observation = observe(
        queue.connection.bootstrap, queue.target, count, process.pid, lambda: _trouble(queue), _LIMIT_S
    )
    result = numbers(observation, count, interval=False)
    return result.records_s, result.cpu_s_per_million


def measure_bare(queue: Queue, count: int) -> float:
    """Run a loop around the client, with one acknowledgement per poll. It reads the queue's input again."""
    group = f"{queue.share_group}-bare"
    alter_share_group(queue.connection, group, ShareSettings().of_group, Deadline.after(30))
    settings = queue.connection.librdkafka(
        group_id=group, share_acknowledgement_mode="explicit", max_poll_records=_BATCH
    )
    consumer = ShareConsumer(settings)
    consumer.subscribe([queue.source])
    began, records, first = 0.0, 0, 0
    until = time.monotonic() + _LIMIT_S
    while records < count:
        messages = consumer.poll(0.5)
        for message in messages:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        records += len(messages)
        if messages and not began:
            began, first = time.monotonic(), records
        if time.monotonic() > until:
            raise BenchmarkError(f"a bare share consumer read {records:,} of {count:,} records in {_LIMIT_S:.0f} s")
    took = time.monotonic() - began
    consumer.close()
    return (records - first) / took


def measure_slow(queue: Queue, tasks: int, seconds: float) -> float:
    """Return records/s of so many tasks, which need 5 ms per record. The measurement starts when all of them run."""
    ideal = tasks * 1000 / _SLOW_MS
    warm, count = int(ideal * 2), int(ideal * seconds)
    queue.configure(tasks, queue.settings(batch_size=str(_SLOW_BATCH), slow_ms=str(_SLOW_MS)))
    processes = [queue.start(task) for task in range(tasks)]
    until = time.monotonic() + _LIMIT_S
    while any("through a share group" not in _log(queue, task) for task in range(tasks)):
        if time.monotonic() > until or any(process.poll() is not None for process in processes):
            raise BenchmarkError(f"{tasks} tasks did not start: see {queue.folder}")
        time.sleep(0.2)
    fill(queue, warm, _SLOW_BATCH)
    pid = processes[0].pid
    observe(queue.connection.bootstrap, queue.target, warm, pid, lambda: _trouble(queue), _LIMIT_S)
    fill(queue, count, _SLOW_BATCH)
    observation = observe(
        queue.connection.bootstrap, queue.target, warm + count, pid, lambda: _trouble(queue), _LIMIT_S
    )
    left = [one for one in observation.samples if one.visible > observation.samples[0].visible]
    # The middle: at the end, tasks run out of work one after another.
    part = (left[-1].visible - left[0].visible) // 10
    middle = [one for one in left if left[0].visible + part <= one.visible <= left[-1].visible - part]
    steps = [one for one, before in zip(middle[1:], middle, strict=False) if one.visible > before.visible]
    scale = (warm + count) / left[-1].visible  # markers count as offsets, too
    return (steps[-1].visible - steps[0].visible) * scale / (steps[-1].at - steps[0].at)


def _log(queue: Queue, task: int) -> str:
    return (queue.folder / f"{task}-{queue.attempts[task]}.log").read_text()


def _trouble(queue: Queue) -> str | None:
    ended = [one.args for one in queue.processes if one.poll() is not None]
    return f"a task ended: see {queue.folder}" if ended else None


def table(rates: Mapping[str, Sequence[float]], cpu: Mapping[str, Sequence[float]], load_s: str) -> str:
    """Return medians, and the targets."""
    middle = {what: median(each) for what, each in rates.items()}
    rows = ["| one task, 100 bytes a record | records/s | CPU s a million |", "|---|--:|--:|"]
    for what in (LEDGER, PLAIN, BARE):
        cost = f"{median(cpu[what]):.1f}" if what in cpu else ""
        rows.append(f"| {what} | {middle[what]:,.0f} | {cost} |")
    one, many = slow(1), slow(_SLOW_TASKS)
    rows += ["", f"| one partition, {_SLOW_MS} ms a record | records/s |", "|---|--:|"]
    rows += [f"| {what} | {middle[what]:,.0f} |" for what in (one, many)]
    part, times = middle[LEDGER] / middle[PLAIN], middle[many] / middle[one]
    rows += [
        "",
        "| target | measured | reached |",
        "|---|--:|---|",
        f"| the ledger leaves {SHARE_OF_PLAIN:.0%} of at least once | {part:.0%} "
        f"| {'yes' if part >= SHARE_OF_PLAIN else 'no'} |",
        f"| {_SLOW_TASKS} tasks on one partition do {TIMES:g} times the work of one | {times:.1f} x "
        f"| {'yes' if times >= TIMES else 'no'} |",
        "",
        f"Load averages before each round: {load_s}.",
    ]
    return "\n".join(rows)


def slow(tasks: int) -> str:
    """Return the name of a row."""
    return f"{tasks} task{'s' if tasks > 1 else ''}"


def page(text: str, machine: Mapping[str, str], count: int, rounds: int) -> str:
    """Return the text of benchmarks/results/share.md."""
    return f"""\
# What the ledger of a share group costs

`make bench ARGS="share --write"` writes this page. `ShareGroupSource` reads {count:,} records of 100 bytes from one
partition and writes them to another one, {_BATCH:,} records a transaction, on one broker. *Without the ledger* is the
same task in the same code with the claim, the check and the state left out: its transactions are atomic, but a
record that is delivered twice is there twice. The bare consumer reads and accepts, and writes nothing. For the second
table each record takes {_SLOW_MS} ms, {_SLOW_BATCH} records make a transaction, and all tasks have started before the
measuring begins. The tasks are processes of their own, without Spark and without transforms. Medians of {rounds}
rounds, the rows taking turns.

{text}

{foot(machine)}"""


def main(argv: Sequence[str]) -> int:
    """Return an exit code as in `python -m benchmarks`."""
    parser = new_parser("share", __doc__, PAGE, nice=True)
    parser.add_argument("--records", type=int, default=400_000, metavar="N", help="default: 400,000")
    parser.add_argument("--seconds", type=float, default=20.0, help="of slow records for each task (default: 20)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument(
        "--minutes", type=float, default=_MINUTES, metavar="M", help="no round begins that would end later (default: 8)"
    )
    args = parser.parse_args(argv)
    if args.nice:
        os.nice(args.nice)
    floors = {name.replace("_", "."): value for name, value in FLOORS.items()}
    rates: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    loads: list[str] = []
    began = time.monotonic()
    with new_folder("share") as root, ExitStack() as stack:
        kafka = EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log", properties=floors)
        stack.callback(kafka.kill)
        kafka.start()
        for number in range(args.rounds):
            spent = time.monotonic() - began
            if number and spent * (number + 1) / number > args.minutes * 60:
                print(f"{args.minutes:g} minutes are nearly over: {number} rounds of {args.rounds}")
                break
            loads.append(load())
            _round(Connection(kafka.bootstrap), root, number, args.records, args.seconds, rates, cpu)
            print(f"{number + 1}/{args.rounds} " + ", ".join(f"{what}: {one[-1]:,.0f}" for what, one in rates.items()))
    text = table(rates, cpu, "; ".join(loads))
    print(f"\n{text}")
    if args.write:
        machine = describe()
        if args.nice:
            machine["shared with other work"] = f"broker, tasks and measuring ran at nice {args.nice}, alike"
        write_page(PAGE, page(text, machine, args.records, len(loads)))
    return 0


def _round(
    connection: Connection,
    root: Path,
    number: int,
    count: int,
    seconds: float,
    rates: dict[str, list[float]],
    cpu: dict[str, list[float]],
) -> None:
    for mode, what in (("exact", LEDGER), ("plain", PLAIN)):
        queue = Queue(connection, f"{mode}{number}", _folder(root, f"{mode}{number}"), partitions=1)
        try:
            rate, cost = measure(queue, count, mode)
            rates.setdefault(what, []).append(rate)
            cpu.setdefault(what, []).append(cost)
            queue.end()
            if mode == "plain":
                rates.setdefault(BARE, []).append(measure_bare(queue, count))
        finally:
            queue.close()
    for tasks in (1, _SLOW_TASKS):
        queue = Queue(connection, f"slow{tasks}-{number}", _folder(root, f"slow{tasks}-{number}"), partitions=1)
        try:
            rates.setdefault(slow(tasks), []).append(measure_slow(queue, tasks, seconds))
        finally:
            queue.close()


def _folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    return folder
